// SPDX-License-Identifier: MIT
// JSON as a checkpoint's side files use it (config.json, generation_config.json, tokenizer.json, index files), read
// with errors that name file and field. nlohmann::json stays behind this header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof {

/// One JSON value with the file and path it came from. Cheap to copy; keeps its document alive.
class Json {
 public:
  /// Throws Error when the file is missing, is not UTF-8 JSON, nests too deep, or is larger than `bytes_max`.
  static Json read(const std::filesystem::path& file, std::size_t bytes_max = std::size_t{1} << 28);
  /// For text that came from elsewhere; `origin` stands where a file name would in errors.
  static Json parse(std::string_view text, const std::string& origin);

  /// "FILE: field a.b[2]" for error sentences.
  std::string where() const;
  [[noreturn]] void fail(const std::string& what) const;  // throws Error: where() + ": " + what

  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  bool is_integer() const;
  bool is_boolean() const;
  bool is_null() const;

  /// Of an object: the field if present and not null.
  std::optional<Json> find(std::string_view field) const;
  /// Of an object: the field; Error when absent or null.
  Json at(std::string_view field) const;
  std::vector<std::string> fields() const;  // of an object, in file order

  /// Of an array.
  std::size_t size() const;
  Json operator[](std::size_t index) const;

  /// Conversions; Error naming the field when the value is of another type or out of range.
  const std::string& string() const;
  bool boolean() const;
  double number() const;  // finite
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  std::vector<std::int64_t> integers(std::int64_t least, std::int64_t most) const;

 private:
  struct Document;
  struct Node;
  std::shared_ptr<const Document> document_;
  const void* value_ = nullptr;  // nlohmann::ordered_json inside *document_
  std::string path_;
};

}  // namespace draftproof
