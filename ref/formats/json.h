// SPDX-License-Identifier: MIT
// Reads the JSON files of a checkpoint (config.json, generation_config.json, tokenizer.json, index files), with errors
// that name file and field. The parser (nlohmann's) is hidden behind this header.
//
// Stricter than most readers: rejects a name that occurs twice in one object, because readers disagree on which one
// counts; also NaN, numbers beyond a double, nesting deeper than 256, and Infinity, which read() makes an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
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
  /// Parses text; errors use `origin` in place of a file name.
  /// `names`: names for errors of fields ("a", "a.b") that have another name in the file itself.
  static Json parse(std::string_view text, const std::string& origin, std::map<std::string, std::string> names = {});

  /// Returns "FILE: field a.b[2]" for error messages.
  std::string where() const;
  [[noreturn]] void fail(const std::string& what) const;  // throws Error: where() + ": " + what

  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  bool is_integer() const;
  bool is_float() const;  // a number written with a point or an exponent
  bool is_boolean() const;
  bool is_null() const;

  /// Objects: whether the field exists, null or not.
  bool has(std::string_view field) const;
  /// Objects: returns the field if present and not null.
  std::optional<Json> find(std::string_view field) const;
  /// Objects: returns the field if present, null or not.
  std::optional<Json> member(std::string_view field) const;
  /// Objects: returns the field; throws Error when it is missing or null.
  Json at(std::string_view field) const;
  std::vector<std::string> fields() const;  // of an object, in the order of the file

  /// Arrays: the number of elements, and the element at `index`; throws Error when there is none.
  std::size_t size() const;
  Json operator[](std::size_t index) const;

  /// Convert the value; throw Error, naming the field, when it has another type or is out of range. A number written
  /// with a point or an exponent counts as an integer when its value is integral and below 2^53 (16.0, 1e6), as some
  /// exporters write.
  const std::string& string() const;
  bool boolean() const;
  double number() const;  // finite
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  std::vector<std::int64_t> integers(std::int64_t min, std::int64_t max) const;

  /// Equal for the same place of the same document, which a Json keeps alive.
  const void* place() const noexcept { return node_; }

  /// Returns the value as JSON, with a space after colons and commas. Numbers are the same doubles or integers.
  std::string text() const;

 private:
  struct Document;
  struct Node;
  struct Builder;
  Json(std::shared_ptr<const Document> document, const Node& node, std::string path);
  std::string field_path(std::string_view field) const;
  const Node* node_of(std::string_view field) const;  // nullptr when absent
  std::string named(const std::string& path) const;

  std::shared_ptr<const Document> document_;
  const Node* node_;  // inside *document_
  std::string path_;
};

}  // namespace draftproof
