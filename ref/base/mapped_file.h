// SPDX-License-Identifier: MIT
// A file whose bytes are read where the system keeps them, without a copy. Whoever makes such a file shorter while it
// is mapped ends this process, by SIGBUS; write a new one and rename it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace draftproof {

class MappedFile {
 public:
  /// Throws Error, naming the file, when it is none, is empty or cannot be mapped.
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace draftproof
