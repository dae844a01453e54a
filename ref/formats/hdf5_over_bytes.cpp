// SPDX-License-Identifier: MIT
#include "ref/formats/hdf5_over_bytes.h"

#include <hdf5.h>
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <exception>

namespace draftproof {
namespace {

using Bytes = const FileBytes*;

struct OpenBytes {
  H5FD_t library;  // first, as the library has a pointer to it
  Bytes bytes;
  haddr_t end;  // of what the library uses
};

OpenBytes& of(H5FD_t* file) { return *reinterpret_cast<OpenBytes*>(file); }
const OpenBytes& of(const H5FD_t* file) { return *reinterpret_cast<const OpenBytes*>(file); }

H5FD_class_t driver_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = H5_VFD_RESERVED + 1;
#endif
  driver.name = "open_bytes";
  driver.maxaddr = HADDR_MAX;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(Bytes);
  driver.open = [](const char*, unsigned, hid_t access, haddr_t) -> H5FD_t* {
    const auto* const bytes = static_cast<const Bytes*>(H5Pget_driver_info(access));
    return bytes == nullptr ? nullptr : &(new OpenBytes{{}, *bytes, 0})->library;
  };
  driver.close = [](H5FD_t* file) -> herr_t {
    delete &of(file);
    return 0;
  };
  driver.query = [](const H5FD_t*, unsigned long* features) -> herr_t {
    *features = H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_ACCUMULATE_METADATA_READ;
    return 0;
  };
  driver.get_eoa = [](const H5FD_t* file, H5FD_mem_t) { return of(file).end; };
  driver.set_eoa = [](H5FD_t* file, H5FD_mem_t, haddr_t end) -> herr_t {
    of(file).end = end;
    return 0;
  };
  driver.get_eof = [](const H5FD_t* file, H5FD_mem_t) -> haddr_t { return of(file).bytes->size(); };
  driver.read = [](H5FD_t* file, H5FD_mem_t, hid_t, haddr_t from, std::size_t count, void* to) -> herr_t {
    const FileBytes& bytes = *of(file).bytes;
    if (from > bytes.size() || count > bytes.size() - from) return -1;
    try {
      bytes.read(from, count, to);
      return 0;
    } catch (const std::exception&) {  // the library is C
      return -1;
    }
  };
  driver.write = [](H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) -> herr_t { return -1; };
  return driver;
}

}  // namespace

std::int64_t open_over(const FileBytes& bytes) {
  static const H5FD_class_t driver = driver_class();
  static const hid_t registered = H5FDregister(&driver);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  const Bytes pointer = &bytes;
  hid_t file = -1;
  // The name is said in the library's messages only; an absolute one makes it ask for no folder.
  if (H5Pset_driver(access, registered, &pointer) >= 0) file = H5Fopen("/file", H5F_ACC_RDONLY, access);
  H5Pclose(access);
  return file;
}

}  // namespace draftproof
