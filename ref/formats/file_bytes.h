// SPDX-License-Identifier: MIT
// Reads parts of a file on request. The file is not memory-mapped: when another process truncates it meanwhile, that is
// an Error and not a bus error, and the RAM in use is only what was requested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace draftproof {

class FileBytes {
 public:
  /// Throws Error when the file does not exist, is not a regular file (a folder, a pipe), or cannot be opened.
  explicit FileBytes(const std::filesystem::path& file);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const std::filesystem::path& file() const noexcept { return file_; }
  std::uint64_t size() const noexcept { return size_; }  // when it was opened

  /// Reads bytes [offset, offset + bytes), which must lie within size(), to `to`. Thread-safe. Throws Error when the
  /// disk fails or the file has become shorter.
  void read(std::uint64_t offset, std::size_t bytes, void* to) const;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace draftproof
