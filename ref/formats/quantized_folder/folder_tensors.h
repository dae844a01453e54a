// SPDX-License-Identifier: MIT
// The tensors of a quantized folder while its matrices are put together, and how their parts are read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ref/formats/quantized_folder/quantized_matrix.h"
#include "ref/formats/stored_tensor.h"

namespace draftproof {

/// No width of a real checkpoint comes near it.
inline constexpr std::int64_t extent_max = 1 << 24;

class FolderTensors {
 public:
  FolderTensors(const std::filesystem::path& folder, std::map<std::string, StoredTensor>& tensors)
      : folder_(folder), tensors_(tensors) {}

  /// The tensors of these types whose names end so, as their names without the ending.
  std::vector<std::string> stems(std::string_view ending, const std::vector<std::string_view>& types) const;

  /// Takes a tensor out. Of one that is missing, `need` notes the name and returns one that must not be read.
  StoredTensor need(const std::string& name);
  std::optional<StoredTensor> take(const std::string& name);
  bool has(const std::string& name) const { return tensors_.contains(name); }

  /// Notes as missing the codes of every tensor that is left and whose name ends in `part`: what schemes take is gone,
  /// so these belong to nothing. The codes have the ending `codes` in place of it.
  void need_codes(std::string_view part, std::string_view codes);

  /// Takes out all tensors whose names end so.
  void drop(std::string_view ending);
  std::uint64_t dropped() const noexcept { return dropped_; }

  /// Whether all tensors needed so far exist.
  bool complete() const noexcept { return missing_.empty(); }
  void put(const std::string& name, QuantizedMatrix matrix);
  std::uint64_t matrices() const noexcept { return matrices_; }

  /// Throws Error, naming them, when tensors were missing.
  void finish() const;

 private:
  const std::filesystem::path& folder_;
  std::map<std::string, StoredTensor>& tensors_;
  std::vector<std::string> missing_;
  std::uint64_t dropped_ = 0;
  std::uint64_t matrices_ = 0;
};

/// Throw Error, naming the tensor, when it has another type, or another shape than the other parts of the matrix ask
/// for.
void require_type(const StoredTensor& tensor, const std::vector<std::string_view>& types);
void require_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& shape, const StoredTensor& codes);
/// Throws Error when it has no rows or columns, more than any real matrix, or another number of dimensions.
void require_matrix(const StoredTensor& codes, std::size_t dimensions = 2);

/// Reads elements [begin, begin + count) as floats: F32, F16, BF16, F8_E4M3, I8, and powers of two, as F8_E8M0 or U8.
std::vector<float> read_numbers(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count);
/// Reads the one number of a tensor of floats. Throws Error unless it has one, and that is finite and positive.
float read_positive(const StoredTensor& tensor);
/// Reads bytes [begin, begin + count) of the tensor.
std::vector<std::uint8_t> read_bytes(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count);
/// Reads words [begin, begin + count) of a tensor of I32.
std::vector<std::uint32_t> read_words(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count);
/// Reads rows of a matrix of whole words, each a stream of codes, [rows][inputs].
std::vector<float> read_code_rows(const StoredTensor& tensor, unsigned bits, std::uint64_t inputs, std::uint64_t first,
                                  std::uint64_t rows);
/// Reads the group of each input; empty when they are in order. Throws Error when there is no such group.
std::vector<std::uint32_t> read_order(const StoredTensor& tensor, std::uint64_t groups, std::uint64_t group_inputs);
/// Reads columns [begin, begin + count) of a matrix of I32, [rows][count].
std::vector<std::uint32_t> read_word_columns(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count);
/// The same of numbers, transposed: [count][rows].
std::vector<float> read_number_columns(const StoredTensor& tensor, std::uint64_t begin, std::uint64_t count);

/// Code i of a stream of codes of `bits` bits, the lowest bits of a byte first.
inline std::uint32_t code_at(const std::uint8_t* stream, std::uint64_t i, unsigned bits) {
  const std::uint64_t bit = i * bits;
  const unsigned shift = bit % 8;
  std::uint32_t word = stream[bit / 8];
  if (shift + bits > 8) word |= std::uint32_t{stream[bit / 8 + 1]} << 8;
  return word >> shift & ((1U << bits) - 1);
}

/// "4 bits, groups of 128"; a negative group is all inputs.
std::string bits_text(unsigned bits, std::int64_t group);

/// A tensor of one number that all scales of a matrix are multiplied with, or one that they are divided by.
struct ScaleOfScales {
  const StoredTensor* factor = nullptr;
  const StoredTensor* divisor = nullptr;
};

/// Makes a matrix [outputs, inputs], or several, of fp4 codes with a scale of F8_E4M3 for each 16. Throws Error when a
/// tensor is not what the others ask for.
QuantizedMatrix nvfp4_matrix(const StoredTensor& codes, const StoredTensor& scales, const ScaleOfScales& whole);
/// Makes a matrix of fp4 codes, two in a byte, the low bits first, with a power of two for each 32.
QuantizedMatrix mxfp4_matrix(const StoredTensor& codes, const StoredTensor& scales, std::vector<std::int64_t> shape);

}  // namespace draftproof
