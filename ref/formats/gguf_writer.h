// SPDX-License-Identifier: MIT
// Writes GGUF files, version 3, that llama.cpp loads: metadata in the order of the calls, tensors at the default
// alignment. Nothing is translated: names, order of rows and keys are up to the caller.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ref/formats/gguf.h"

namespace draftproof {

/// Metadata to write. The types are those that llama.cpp expects for its keys. Each key may be added once.
class GgufFields {
 public:
  void text(const std::string& key, const std::string& value);
  void size(const std::string& key, std::uint32_t value);
  void number(const std::string& key, float value);
  void truth(const std::string& key, bool value);
  void texts(const std::string& key, const std::vector<std::string>& values);
  void truths(const std::string& key, const std::vector<bool>& values);
  void integers(const std::string& key, const std::vector<std::int32_t>& values);
  void numbers(const std::string& key, const std::vector<float>& values);
  /// Copies the value of this key, of any type, from `from`. Throws Error when it is missing there.
  void copy(const Gguf& from, const std::string& key);

  std::uint64_t count() const noexcept { return keys_.size(); }
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void put(const std::string& key, const std::string& stored_value);

  std::set<std::string> keys_;
  std::string bytes_;
};

/// Returns the number that llama.cpp gives a file with weights of this format (general.file_type).
std::uint32_t gguf_file_type(Format format) noexcept;

/// A matrix, or a vector when it has one output; or integers.
struct GgufTensor {
  std::string name;
  WeightSource rows = {};
  int matrices = 1;                         // more: rows of as many matrices, one after the other
  std::vector<std::int64_t> integers = {};  // in place of rows
};

/// Replaces the file completely or not at all, reading the tensors a few rows at a time. Throws Error when the file
/// cannot be written or a tensor cannot be read.
void write_gguf(const std::filesystem::path& file, const GgufFields& fields, std::span<const GgufTensor> tensors);

}  // namespace draftproof
