// SPDX-License-Identifier: MIT
// GGUF files, version 3, as llama.cpp loads them: metadata in the order it was put, tensors at the default alignment.
// Names, order of rows and keys are the writer's to get right; nothing is translated here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ref/formats/gguf.h"

namespace draftproof {

/// Metadata to be written. The types are those that llama.cpp expects of its keys. A key is put once.
class GgufFields {
 public:
  void text(const std::string& key, const std::string& value);
  void size(const std::string& key, std::uint32_t value);
  void number(const std::string& key, float value);
  void truth(const std::string& key, bool value);
  void texts(const std::string& key, const std::vector<std::string>& values);
  void integers(const std::string& key, const std::vector<std::int32_t>& values);
  void numbers(const std::string& key, const std::vector<float>& values);
  /// The value that `from` has there, of whatever type. Error when it has none.
  void copy(const Gguf& from, const std::string& key);

  std::uint64_t count() const noexcept { return keys_.size(); }
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void put(const std::string& key, const std::string& stored_value);

  std::set<std::string> keys_;
  std::string bytes_;
};

/// A matrix; with one output, a vector.
struct GgufTensor {
  std::string name;
  WeightSource rows;
};

/// Reads the tensors, a few rows at a time, into a temporary file beside `file`, which then takes its place: `file` is
/// never half written. Error when it cannot be written or a tensor cannot be read.
void write_gguf(const std::filesystem::path& file, const GgufFields& fields, std::span<const GgufTensor> tensors);

}  // namespace draftproof
