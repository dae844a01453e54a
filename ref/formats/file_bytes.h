// SPDX-License-Identifier: MIT
// The bytes of a file, read where they are asked for. Nothing is mapped: a file that another process cuts short while
// we read it is an Error, not a bus error, and what we hold in memory is what we asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace draftproof {

class FileBytes {
 public:
  /// Throws Error when there is no such file, when it is none (a folder, a pipe), or cannot be opened.
  explicit FileBytes(const std::filesystem::path& file);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const std::filesystem::path& file() const noexcept { return file_; }
  std::uint64_t size() const noexcept { return size_; }  // when it was opened

  /// Bytes [offset, offset + bytes), which lie within size(), to `to`. From any thread. Throws Error when the disk
  /// fails or the file has become shorter.
  void read(std::uint64_t offset, std::size_t bytes, void* to) const;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace draftproof
