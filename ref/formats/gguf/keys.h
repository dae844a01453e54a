// SPDX-License-Identifier: MIT
// The keys "<architecture>.<name>" of a GGUF: those of a file, and those to write. Names are given without the
// architecture.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/formats/gguf.h"
#include "ref/formats/gguf_writer.h"

namespace draftproof {

/// Reads the keys of one file. For a key that is absent, functions that find return nothing, others throw Error. All
/// throw Error, naming the key, for a value of another type.
class GgufKeys {
 public:
  explicit GgufKeys(const Gguf& file) : file_(file), prefix_(*file.find_text("general.architecture") + ".") {}

  std::optional<std::int64_t> find_integer(const std::string& name) const { return file_.find_integer(prefix_ + name); }
  std::optional<std::int64_t> find_size(const std::string& name) const;  // at least 1
  std::int64_t size(const std::string& name) const { return given(name, find_size(name)); }
  std::optional<double> find_number(const std::string& name) const;  // finite
  double number(const std::string& name) const { return given(name, find_number(name)); }
  std::optional<bool> find_boolean(const std::string& name) const;
  const std::string* find_text(const std::string& name) const { return file_.find_text(prefix_ + name); }
  std::optional<std::vector<std::int64_t>> find_integers(const std::string& name) const;
  /// Returns block_count; throws Error where memory is not to be taken for so many.
  std::int64_t layers() const;
  std::optional<std::vector<double>> find_numbers(const std::string& name) const;  // infinite ones, too
  /// Returns the numbers of all layers under a key that is not of the architecture, where one stands for all. Throws
  /// Error when it is missing.
  std::vector<double> layer_numbers(const std::string& whole_key) const;
  /// Whether the value is an array of integers.
  bool listed(const std::string& name) const;
  /// Returns the sizes of all layers, where a file may give one for all.
  std::vector<std::int64_t> layer_sizes(const std::string& name) const;
  /// Return a size that some files give per layer. All layers must have the same one.
  std::optional<std::int64_t> find_layer_size(const std::string& name) const;
  std::int64_t layer_size(const std::string& name) const { return given(name, find_layer_size(name)); }

  /// Returns the sizes of all layers, where those without attention have 0 and the others the same.
  std::vector<std::int64_t> attention_sizes(const std::string& name) const;

  /// Throws Error when the file has a key of the architecture that is not one of these: ignoring a key could compute
  /// something else.
  void refuse_all_but(std::initializer_list<std::span<const std::string_view>> known) const;

  /// Returns the values of a vector of floats. Throws Error for a tensor of another kind.
  std::vector<float> vector(const std::string& name) const;
  /// Returns the rows of a matrix; 0 when the file does not have it, or when it is none.
  std::int64_t rows(const std::string& matrix) const;
  bool has_tensor(const std::string& name) const { return file_.tensors().contains(name); }
  std::string whole(const char* name) const { return prefix_ + name; }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const { file_.fail(prefix_ + name, what); }

 private:
  template <class Value>
  Value given(const std::string& name, const std::optional<Value>& value) const {
    if (!value) fail(name, "is missing; the file does not describe the model");
    return *value;
  }

  const Gguf& file_;
  std::string prefix_;
};

/// Adds keys to the fields of a file.
class GgufKeyWriter {
 public:
  GgufKeyWriter(const std::string& architecture, GgufFields& fields)
      : architecture_(architecture), prefix_(architecture + "."), fields_(fields) {}

  void size(const std::string& name, std::int64_t value) {
    fields_.size(prefix_ + name, static_cast<std::uint32_t>(value));
  }
  void number(const std::string& name, double value) { fields_.number(prefix_ + name, static_cast<float>(value)); }
  void truth(const std::string& name, bool value) { fields_.truth(prefix_ + name, value); }
  void text(const std::string& name, const std::string& value) { fields_.text(prefix_ + name, value); }
  void truths(const std::string& name, const std::vector<bool>& value) { fields_.truths(prefix_ + name, value); }
  void integers(const std::string& name, const std::vector<std::int32_t>& value) {
    fields_.integers(prefix_ + name, value);
  }
  void numbers(const std::string& name, const std::vector<float>& value) { fields_.numbers(prefix_ + name, value); }
  /// One number when all are the same.
  void one_or_all(const std::string& name, const std::vector<std::int32_t>& values);

  const std::string& architecture() const noexcept { return architecture_; }
  GgufFields& fields() const noexcept { return fields_; }  // for keys that are not of the architecture

 private:
  std::string architecture_;
  std::string prefix_;
  GgufFields& fields_;
};

}  // namespace draftproof
