// SPDX-License-Identifier: MIT
#include "ref/formats/hdf5.h"

#include <hdf5.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <system_error>
#include <type_traits>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/base/require.h"
#include "ref/formats/hdf5_over_bytes.h"
#include "ref/formats/printable.h"

namespace draftproof {

namespace {

static_assert(sizeof(hid_t) == sizeof(std::int64_t));

constexpr std::uint64_t elements_max = std::uint64_t{1} << 33;

/// Returns the library's own description of its latest failure; of a failure of the system, what the system says.
std::string reason() {
  std::string text;
  const auto first = [](unsigned depth, const H5E_error2_t* error, void* data) -> herr_t {
    if (depth == 0 && error->desc) *static_cast<std::string*>(data) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &text);
  constexpr std::string_view before = "error message = '";
  if (const std::size_t at = text.find(before); at != std::string::npos) {
    text.erase(0, at + before.size());
    text.resize(std::min(text.find('\''), text.size()));
  }
  return text.empty() ? "" : " (" + printable(text) + ")";
}

/// Owns any identifier of the library and closes it by the function for its kind.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }
  bool ok() const { return id_ >= 0; }
  hid_t release() { return std::exchange(id_, -1); }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

template <class T>
hid_t native() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_NATIVE_UINT8;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_NATIVE_UINT64;
}

/// The stored type, fixed so that files have the same bytes on every machine.
template <class T>
hid_t stored() {
  if constexpr (std::is_same_v<T, float>) return H5T_IEEE_F32LE;
  if constexpr (std::is_same_v<T, double>) return H5T_IEEE_F64LE;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_STD_I32LE;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_STD_I64LE;
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_STD_U8LE;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_STD_U64LE;
}

/// Makes transfers fail when a value does not fit an integer type, instead of clamping it silently.
void refuse_clamping(hid_t transfer) {
  const auto refuse = [](H5T_conv_except_t, hid_t, hid_t, void*, void*, void*) { return H5T_CONV_ABORT; };
  REQUIRE(H5Pset_type_conv_cb(transfer, refuse, nullptr) >= 0, "HDF5 takes a callback in a transfer list");
}

/// Must run before any other call of the library. When a file could not be written (a full disk), the library keeps the
/// unwritten rest and would crash on it at process exit; our files are closed by then.
void prepare_library() {
  static const herr_t left_alone_at_exit = H5dont_atexit();
  static_cast<void>(left_alone_at_exit);  // fails when other code has used the library before
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string message(const std::filesystem::path& file, const std::string& path, const std::string& what) {
  return file.string() + ": " + in_quotes(path) + " " + what;
}

/// Throws Error when the path contains a link, because the library follows links, even into other files. A missing part
/// is not a link.
void refuse_links(const std::filesystem::path& file, hid_t handle, const std::string& path) {
  for (std::size_t end = path.find_first_not_of('/'); end < path.size(); end = path.find_first_not_of('/', end)) {
    end = path.find('/', end);
    const std::string part = path.substr(0, end);
    H5L_info_t link;
    if (H5Lget_info(handle, part.c_str(), &link, H5P_DEFAULT) >= 0 && link.type != H5L_TYPE_HARD) {
      throw Error(message(file, part, "is a link to somewhere else; copy what it leads to into the file"));
    }
  }
}

}  // namespace

Hdf5 Hdf5::open(const std::filesystem::path& file) {
  if (!is_present(file)) throw Error(file.string() + ": no such file");
  return open(std::make_shared<const FileBytes>(file));
}

Hdf5 Hdf5::open(std::shared_ptr<const FileBytes> bytes) {
  prepare_library();
  Hdf5 result;
  result.file_ = bytes->file();
  result.bytes_ = std::move(bytes);
  result.handle_ = open_over(*result.bytes_);
  if (result.handle_ < 0) throw Error(result.file_.string() + ": not an HDF5 file, or damaged" + reason());
  return result;
}

Hdf5 Hdf5::create(const std::filesystem::path& file) {
  prepare_library();
  Hdf5 result;
  result.file_ = file;
  result.handle_ = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (result.handle_ < 0) throw Error(file.string() + ": cannot be created" + reason());
  return result;
}

Hdf5::~Hdf5() {
  if (handle_ >= 0) H5Fclose(handle_);
}

Hdf5::Hdf5(Hdf5&& other) noexcept
    : file_(std::move(other.file_)), bytes_(std::move(other.bytes_)), handle_(std::exchange(other.handle_, -1)) {}

Hdf5& Hdf5::operator=(Hdf5&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(bytes_, other.bytes_);
  std::swap(handle_, other.handle_);
  return *this;
}

std::uint64_t Hdf5::size() const {
  std::error_code error;
  return bytes_ != nullptr ? bytes_->size() : std::filesystem::file_size(file_, error);
}

bool Hdf5::has(const std::string& path) const {
  refuse_links(file_, handle_, path);
  // The library checks only the last part of a path, and fails when an earlier part is missing.
  for (std::size_t end = path.find_first_not_of('/'); end < path.size(); end = path.find_first_not_of('/', end)) {
    end = path.find('/', end);
    if (H5Lexists(handle_, path.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return !path.empty();
}

std::vector<std::string> Hdf5::children(const std::string& group) const {
  refuse_links(file_, handle_, group);
  const Handle handle(H5Gopen2(handle_, group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!handle.ok()) throw Error(message(file_, group, "is not a group of the file" + reason()));
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  if (H5Literate(handle, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names) < 0) {
    throw Error(message(file_, group, "cannot be listed; the file is damaged" + reason()));
  }
  std::ranges::sort(names);
  return names;
}

template <class T>
Array<T> Hdf5::read(const std::string& path) const {
  refuse_links(file_, handle_, path);
  const Handle dataset(H5Dopen2(handle_, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.ok()) throw Error(message(file_, path, "is not a dataset of the file" + reason()));
  const auto fail = [&](const std::string& what) { throw Error(message(file_, path, what)); };

  const Handle type(H5Dget_type(dataset), H5Tclose);
  const H5T_class_t kind = type.ok() ? H5Tget_class(type) : H5T_NO_CLASS;
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) fail("does not hold numbers");

  const Handle space(H5Dget_space(dataset), H5Sclose);
  const int rank = space.ok() ? H5Sget_simple_extent_ndims(space) : -1;
  if (rank < 0 || H5Sget_simple_extent_type(space) == H5S_NULL) fail("has no shape" + reason());
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  if (H5Sget_simple_extent_dims(space, extents.data(), nullptr) < 0) fail("has no shape" + reason());
  std::uint64_t count = 1;
  for (const hsize_t extent : extents) {
    if (__builtin_mul_overflow(count, extent, &count) || count > elements_max) fail("has more than 2^33 elements");
  }

  // Memory is allocated only after checking that the file stores this much.
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  const H5D_layout_t layout = creation.ok() ? H5Pget_layout(creation) : H5D_LAYOUT_ERROR;
  if (layout == H5D_CHUNKED) fail("is chunked; store it contiguously");
  if ((layout != H5D_CONTIGUOUS && layout != H5D_COMPACT) || H5Pget_external_count(creation) != 0) {
    fail("stores its values in other files; copy it into one file");
  }
  const std::uint64_t held = H5Dget_storage_size(dataset);
  if (held > size() || held / H5Tget_size(type) < count) {
    fail("has a shape larger than the values stored for it; the file is damaged or was never filled");
  }

  Array<T> array;
  array.shape.assign(extents.begin(), extents.end());
  array.values.resize(count);
  const Handle transfer(H5Pcreate(H5P_DATASET_XFER), H5Pclose);
  if (std::is_integral_v<T>) refuse_clamping(transfer);
  if (count != 0 && H5Dread(dataset, native<T>(), H5S_ALL, H5S_ALL, transfer, array.values.data()) < 0) {
    fail("cannot be read: damaged, or a value does not fit the requested type" + reason());
  }
  return array;
}

std::string Hdf5::read_string_attribute(const std::string& path, const std::string& name) const {
  const auto fail = [&](const std::string& what) {
    throw Error(message(file_, path, "attribute " + in_quotes(name) + " " + what));
  };
  refuse_links(file_, handle_, path);
  const Handle attribute(H5Aopen_by_name(handle_, path.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute.ok()) fail("is missing" + reason());
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1) fail("is not one string");

  if (H5Tis_variable_str(type) > 0) {
    char* text = nullptr;
    if (H5Aread(attribute, type, &text) < 0) fail("cannot be read" + reason());
    const std::string result = text ? text : "";
    H5free_memory(text);
    return result;
  }
  if (H5Tget_size(type) > size()) fail("is longer than the file");
  std::string text(H5Tget_size(type), '\0');
  if (H5Aread(attribute, type, text.data()) < 0) fail("cannot be read" + reason());
  switch (H5Tget_strpad(type)) {
    case H5T_STR_NULLTERM: text.resize(std::min(text.find('\0'), text.size())); break;
    case H5T_STR_SPACEPAD: text.resize(text.find_last_not_of(' ') + 1); break;
    default: text.resize(text.find_last_not_of('\0') + 1);
  }
  return text;
}

template <class T>
void Hdf5::write(const std::string& path, const Array<T>& array) {
  std::vector<hsize_t> extents;
  for (const std::int64_t extent : array.shape) {
    REQUIRE(extent >= 0, "an array's shape has no negative extent");
    extents.push_back(static_cast<hsize_t>(extent));
  }
  const auto count = std::accumulate(extents.begin(), extents.end(), hsize_t{1}, std::multiplies<>());
  REQUIRE(count == array.values.size(), "an array has as many values as its shape");
  REQUIRE(extents.size() <= H5S_MAX_RANK, "HDF5 has at most 32 dimensions");

  const int rank = static_cast<int>(extents.size());
  const Handle space(rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, extents.data(), nullptr), H5Sclose);
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  H5Pset_obj_track_times(creation, false);  // without timestamps, equal values give equal files
  const Handle dataset(H5Dcreate2(handle_, path.c_str(), stored<T>(), space, links, creation, H5P_DEFAULT), H5Dclose);
  if (!dataset.ok()) throw Error(message(file_, path, "cannot be created" + reason()));
  const bool written = H5Dwrite(dataset, native<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()) >= 0;
  if (!written || H5Fflush(handle_, H5F_SCOPE_LOCAL) < 0) {
    throw Error(message(file_, path, "cannot be written; is the disk full?" + reason()));
  }
}

void Hdf5::write_string_attribute(const std::string& path, const std::string& name, const std::string& value) {
  const Handle object(H5Oopen(handle_, path.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object.ok()) throw Error(message(file_, path, "is not in the file" + reason()));
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  H5Tset_size(type, std::max<std::size_t>(1, value.size()));  // HDF5 has no empty strings
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  if (H5Aexists(object, name.c_str()) > 0) H5Adelete(object, name.c_str());
  const Handle attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute.ok() || H5Awrite(attribute, type, value.c_str()) < 0 || H5Fflush(handle_, H5F_SCOPE_LOCAL) < 0) {
    throw Error(message(file_, path, "cannot store attribute " + in_quotes(name) + reason()));
  }
}

template <class T>
void Hdf5List<T>::fail(const std::string& what) const {
  throw Error(message(file_.file_, path_, what));
}

template <class T>
Hdf5List<T>::Hdf5List(const Hdf5& file, const std::string& path) : file_(file), path_(path) {
  if (!file.has(path)) fail("is missing");
  Handle dataset(H5Dopen2(file.handle_, path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.ok()) fail("is not a dataset of the file" + reason());
  const Handle type(H5Dget_type(dataset), H5Tclose);
  if (!type.ok() || H5Tequal(type, stored<T>()) <= 0) {
    fail(std::string("is not of the type ") +
         (std::is_same_v<T, std::int32_t>    ? "int32"
          : std::is_same_v<T, std::uint64_t> ? "uint64"
                                             : "float64") +
         ", little-endian");
  }
  const Handle space(H5Dget_space(dataset), H5Sclose);
  hsize_t extent = 0;
  if (!space.ok() || H5Sget_simple_extent_ndims(space) != 1 ||
      H5Sget_simple_extent_dims(space, &extent, nullptr) != 1) {
    fail("is not a list, of one dimension" + reason());
  }
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  const H5D_layout_t layout = creation.ok() ? H5Pget_layout(creation) : H5D_LAYOUT_ERROR;
  if ((layout != H5D_CHUNKED && layout != H5D_CONTIGUOUS) || H5Pget_external_count(creation) != 0) {
    fail("is neither chunked nor one piece of this file");
  }
  if (layout == H5D_CHUNKED) {
    hsize_t chunk = 0;
    if (H5Pget_chunk(creation, 1, &chunk) != 1 || chunk == 0 || chunk > chunk_bytes_max / sizeof(T)) {
      fail("has chunks of more than " + std::to_string(chunk_bytes_max) + " bytes; make them smaller");
    }
    chunk_ = chunk;
    const int filters = H5Pget_nfilters(creation);
    std::vector<H5Z_filter_t> seen;
    for (int i = 0; i < filters; ++i) {
      unsigned flags = 0;
      std::size_t values = 0;
      const H5Z_filter_t filter =
          H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
      const bool known =
          filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_FLETCHER32;
      if (!known || std::ranges::find(seen, filter) != seen.end()) {
        fail("uses filters other than gzip, shuffle and fletcher32, once each");
      }
      seen.push_back(filter);
    }
  } else if (H5Dget_storage_size(dataset) / sizeof(T) < extent) {
    fail("has a shape larger than the values stored for it; the file is damaged or was never filled");
  }
  size_ = extent;
  handle_ = dataset.release();
}

template <class T>
Hdf5List<T>::~Hdf5List() {
  if (handle_ >= 0) H5Dclose(handle_);
}

/// Rejects a chunk with more bytes in the file than its values need: only a malicious file has one.
template <class T>
void Hdf5List<T>::expect_chunks(std::uint64_t first, std::uint64_t end) {
  constexpr hsize_t checksum_bytes = 4;
  for (std::uint64_t chunk = first / chunk_; chunk <= (end - 1) / chunk_; ++chunk) {
    if (expected_ == chunk + 1) continue;
    const hsize_t at = chunk * chunk_;
    hsize_t bytes = 0;
    if (H5Dget_chunk_storage_size(handle_, &at, &bytes) < 0 || bytes == 0) {
      fail("was never written from value " + std::to_string(at) + " on" + reason());
    }
    if (bytes > chunk_ * sizeof(T) + checksum_bytes) {
      fail("takes more bytes in the file from value " + std::to_string(at) + " on than its values need");
    }
    expected_ = chunk + 1;
  }
}

template <class T>
void Hdf5List<T>::read(std::uint64_t first, std::span<T> to) {
  REQUIRE(first <= size_ && to.size() <= size_ - first, "what is read was checked against the size of the list");
  if (to.empty()) return;
  if (chunk_ != 0) expect_chunks(first, first + to.size());
  const hsize_t from = first;
  const hsize_t count = to.size();
  const Handle space(H5Dget_space(handle_), H5Sclose);
  const Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
  if (H5Sselect_hyperslab(space, H5S_SELECT_SET, &from, nullptr, &count, nullptr) < 0 ||
      H5Dread(handle_, native<T>(), memory, space, H5P_DEFAULT, to.data()) < 0) {
    fail("cannot be read from value " + std::to_string(first) + " on; it is damaged" + reason());
  }
}

template <class T>
Hdf5ListWriter<T>::Hdf5ListWriter(Hdf5& file, const std::string& path) : file_(file), path_(path) {
  const hsize_t none = 0;
  const hsize_t unlimited = H5S_UNLIMITED;
  const hsize_t chunk = Hdf5List<T>::chunk_bytes_max / sizeof(T);
  const Handle space(H5Screate_simple(1, &none, &unlimited), H5Sclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  H5Pset_chunk(creation, 1, &chunk);
  H5Pset_shuffle(creation);
  H5Pset_deflate(creation, 1);
  handle_ = H5Dcreate2(file.handle_, path.c_str(), stored<T>(), space, H5P_DEFAULT, creation, H5P_DEFAULT);
  if (handle_ < 0) throw Error(message(file.file_, path, "cannot be created" + reason()));
  buffered_.reserve(chunk);
}

template <class T>
Hdf5ListWriter<T>::~Hdf5ListWriter() {
  if (handle_ >= 0) H5Dclose(handle_);
}

template <class T>
void Hdf5ListWriter<T>::append(std::span<const T> values) {
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), buffered_.capacity() - buffered_.size());
    buffered_.insert(buffered_.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
    values = values.subspan(count);
    if (buffered_.size() == buffered_.capacity()) write_buffered();
  }
}

template <class T>
void Hdf5ListWriter<T>::write_buffered() {
  if (buffered_.empty()) return;
  const hsize_t from = written_;
  const hsize_t count = buffered_.size();
  const hsize_t extent = from + count;
  bool written = H5Dset_extent(handle_, &extent) >= 0;
  const Handle space(H5Dget_space(handle_), H5Sclose);
  const Handle memory(H5Screate_simple(1, &count, nullptr), H5Sclose);
  written = written && H5Sselect_hyperslab(space, H5S_SELECT_SET, &from, nullptr, &count, nullptr) >= 0 &&
            H5Dwrite(handle_, native<T>(), memory, space, H5P_DEFAULT, buffered_.data()) >= 0;
  if (!written) throw Error(message(file_.file_, path_, "cannot be written; is the disk full?" + reason()));
  written_ = extent;
  buffered_.clear();
}

template <class T>
void Hdf5ListWriter<T>::finish() {
  write_buffered();
  const bool closed = H5Dclose(std::exchange(handle_, -1)) >= 0;
  if (!closed || H5Fflush(file_.handle_, H5F_SCOPE_LOCAL) < 0) {
    throw Error(message(file_.file_, path_, "cannot be written; is the disk full?" + reason()));
  }
}

template Array<float> Hdf5::read(const std::string&) const;
template Array<double> Hdf5::read(const std::string&) const;
template Array<std::int32_t> Hdf5::read(const std::string&) const;
template Array<std::int64_t> Hdf5::read(const std::string&) const;
template Array<std::uint8_t> Hdf5::read(const std::string&) const;
template Array<std::uint64_t> Hdf5::read(const std::string&) const;
template void Hdf5::write(const std::string&, const Array<float>&);
template void Hdf5::write(const std::string&, const Array<double>&);
template void Hdf5::write(const std::string&, const Array<std::int32_t>&);
template void Hdf5::write(const std::string&, const Array<std::int64_t>&);
template void Hdf5::write(const std::string&, const Array<std::uint8_t>&);
template void Hdf5::write(const std::string&, const Array<std::uint64_t>&);

template class Hdf5List<double>;
template class Hdf5List<std::int32_t>;
template class Hdf5List<std::uint64_t>;
template class Hdf5ListWriter<double>;
template class Hdf5ListWriter<std::int32_t>;
template class Hdf5ListWriter<std::uint64_t>;

}  // namespace draftproof
