// SPDX-License-Identifier: MIT
// A matrix that a folder stores in several tensors: codes, scales of groups of codes, and what else its scheme has.
// Each scheme says how rows become numbers; this file makes weights of the numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ref/formats/stored_tensor.h"

namespace draftproof {

/// Rows as numbers. Value i of a row is scale[g] * (code[i] - zero[g]) + minimum[g], each step rounded to float, where
/// g is the group of input i. Whole numbers of so few bits and their difference are exact; so is their product with a
/// scale of 16 bits.
struct CodeRows {
  std::vector<float> codes;     // [rows][inputs]
  std::vector<float> scales;    // [rows][groups]
  std::vector<float> zeros;     // [rows][groups]; empty: 0
  std::vector<float> minimums;  // [rows][groups]; empty: nothing is added
};

struct QuantizedMatrix {
  std::vector<StoredTensor> parts;   // as in the file: codes, scales, others
  std::vector<std::int64_t> shape;   // of the weights; the rows of all matrices in it follow each other
  std::uint64_t group_inputs = 0;    // that share a scale
  std::vector<std::uint32_t> order;  // the group of each input; empty: that of input i is i / group_inputs
  bool signed_scales = false;
  Format format{};  // of its weights
  std::function<CodeRows(const QuantizedMatrix& matrix, std::uint64_t first, std::uint64_t rows)> decode;

  std::uint64_t rows() const noexcept;  // of all matrices
  std::uint64_t inputs() const noexcept { return static_cast<std::uint64_t>(shape.back()); }
  std::uint64_t groups() const noexcept { return (inputs() + group_inputs - 1) / group_inputs; }
};

/// Sets the format to the smallest one that has the values: whole numbers `code - zero` in [min, max] times a scale in
/// f16, of groups that fill quantization blocks of 32. Where there is none, to f16 for scales in f16, else to bf16.
void choose_format(QuantizedMatrix& matrix, int min, int max, bool has_minimums);

/// Write rows [first, first + rows): the values, and the values in the matrix's format. Throw Error, naming file and
/// tensor, when a scale is not finite, cannot be right or is too large for the format.
void read_exact_values(const QuantizedMatrix& matrix, std::uint64_t first, std::uint64_t rows, float* to);
void read_quantized_rows(const QuantizedMatrix& matrix, std::uint64_t first, std::uint64_t rows, void* to);

}  // namespace draftproof
