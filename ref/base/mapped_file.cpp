// SPDX-License-Identifier: MIT
#include "ref/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ref/base/error.h"

namespace draftproof {

MappedFile::MappedFile(const std::filesystem::path& file) {
  const auto fail = [&](const std::string& what) { throw Error(file.string() + ": " + what); };
  const int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) fail(std::string("cannot be opened: ") + std::strerror(errno));
  struct stat about = {};
  const bool known = fstat(opened, &about) == 0;
  const auto size = static_cast<std::size_t>(about.st_size);
  void* mapped = MAP_FAILED;
  if (known && S_ISREG(about.st_mode) && size > 0) mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, opened, 0);
  const int why = errno;
  close(opened);
  if (!known || !S_ISREG(about.st_mode)) fail("is not a file");
  if (size == 0) fail("is empty");
  if (mapped == MAP_FAILED) fail(std::string("cannot be mapped into memory: ") + std::strerror(why));
  bytes_ = {static_cast<const std::byte*>(mapped), size};
}

MappedFile::~MappedFile() { munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace draftproof
