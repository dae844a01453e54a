// SPDX-License-Identifier: MIT
// Reads GGUF, versions 2 and 3, little-endian: the metadata and the location of each tensor, in one file or a split.
//
// Files are untrusted: every count, size, type, offset and alignment is checked before it is used. An invalid one is an
// Error that names the file and the key or tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ref/formats/stored_tensor.h"

namespace draftproof {

struct GgufElement;

/// Integers are converted to 64 bits, floats to double; a boolean in an array is 0 or 1; an array of arrays has one
/// GgufElement per inner array.
using GgufValue =
    std::variant<std::uint64_t, std::int64_t, double, bool, std::string, std::vector<std::uint64_t>,
                 std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>, std::vector<GgufElement>>;
struct GgufElement {
  GgufValue value;
  bool operator==(const GgufElement&) const = default;
};

using GgufMetadata = std::map<std::string, GgufValue>;

/// Reads only the metadata of one file, so its tensors may have any type.
GgufMetadata read_gguf_metadata(const std::filesystem::path& file);

class Gguf {
 public:
  /// `file` is a whole GGUF, or the first part of a split ("NAME-00001-of-00003.gguf") whose other parts are in the
  /// same folder.
  explicit Gguf(const std::filesystem::path& file);

  const std::filesystem::path& file() const noexcept { return file_; }
  const GgufMetadata& metadata() const noexcept { return metadata_; }  // of the first file
  const std::map<std::string, StoredTensor>& tensors() const noexcept { return tensors_; }

  /// Return metadata by key; nullptr or nothing when absent. Throw Error, naming file and key, when the value has
  /// another type.
  const std::string* find_text(const std::string& key) const;              // UTF-8
  std::optional<std::int64_t> find_integer(const std::string& key) const;  // of any integer type
  std::optional<double> find_number(const std::string& key) const;         // of any numeric type
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

  /// Returns the bytes of the value as in the file, preceded by the number of its type, for copying.
  std::string stored_value(const std::string& key) const;

 private:
  struct Place {
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  std::filesystem::path file_;
  std::shared_ptr<const FileBytes> bytes_;
  GgufMetadata metadata_;
  std::map<std::string, Place> places_;  // of the values in the first file
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace draftproof
