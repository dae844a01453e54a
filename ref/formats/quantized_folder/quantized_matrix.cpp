// SPDX-License-Identifier: MIT
#include "ref/formats/quantized_folder/quantized_matrix.h"

#include <algorithm>
#include <cmath>

#include "ref/base/error.h"

namespace draftproof {
namespace {

constexpr std::uint64_t block_inputs = 32;  // of every format that codes are written to

[[noreturn]] void fail_number(const StoredTensor& of, const char* what, float number, std::uint64_t row,
                              std::uint64_t group, const std::string& why) {
  throw Error(where(of) + " gives row " + std::to_string(row) + ", group " + std::to_string(group) + " the " + what +
              " " + std::to_string(number) + ", " + why);
}

[[noreturn]] void fail_scale(const QuantizedMatrix& matrix, float scale, std::uint64_t row, std::uint64_t group,
                             const std::string& why) {
  fail_number(matrix.parts[1], "scale", scale, row, group, why);
}

/// The biases of matrices that have them follow their scales.
[[noreturn]] void fail_bias(const QuantizedMatrix& matrix, float bias, std::uint64_t row, std::uint64_t group,
                            const std::string& why) {
  fail_number(matrix.parts[2], "bias", bias, row, group, why);
}

/// The first and the last input of a group that are neighbors, when groups are in order.
struct Span {
  std::uint64_t begin;
  std::uint64_t end;
};

Span span_of(const QuantizedMatrix& matrix, std::uint64_t group) {
  return {group * matrix.group_inputs, std::min((group + 1) * matrix.group_inputs, matrix.inputs())};
}

bool all_codes_are_zero(const QuantizedMatrix& matrix, const float* codes, float zero, std::uint64_t group) {
  if (matrix.order.empty()) {
    const Span span = span_of(matrix, group);
    return std::all_of(codes + span.begin, codes + span.end, [&](float code) { return code == zero; });
  }
  for (std::uint64_t i = 0; i < matrix.inputs(); ++i) {
    if (matrix.order[i] == group && codes[i] != zero) return false;
  }
  return true;
}

/// Decodes rows and checks their scales.
CodeRows checked_rows(const QuantizedMatrix& matrix, std::uint64_t first, std::uint64_t rows) {
  CodeRows numbers = matrix.decode(matrix, first, rows);
  const std::uint64_t groups = matrix.groups();
  for (std::uint64_t i = 0; i < numbers.scales.size(); ++i) {
    const float scale = numbers.scales[i];
    const std::uint64_t row = first + i / groups;
    constexpr const char* not_finite = "which is not finite; the file is damaged, fetch it again";
    if (!std::isfinite(scale)) fail_scale(matrix, scale, row, i % groups, not_finite);
    if (!numbers.minimums.empty() && !std::isfinite(numbers.minimums[i])) {
      fail_bias(matrix, numbers.minimums[i], row, i % groups, not_finite);
    }
    if (scale < 0 && !matrix.signed_scales) {
      fail_scale(matrix, scale, row, i % groups,
                 "but scales of this scheme are positive; the file is damaged, fetch it again");
    }
    if (scale == 0 && numbers.minimums.empty() &&
        !all_codes_are_zero(matrix, numbers.codes.data() + i / groups * matrix.inputs(),
                            numbers.zeros.empty() ? 0 : numbers.zeros[i], i % groups)) {
      fail_scale(matrix, scale, row, i % groups, "but codes that are not zero; the file is damaged, fetch it again");
    }
  }
  return numbers;
}

void require_finite(const QuantizedMatrix& matrix, std::uint64_t row, const float* values) {
  const std::size_t bad = first_not_finite(Format::f32, values, matrix.inputs());
  if (bad == matrix.inputs()) return;
  throw Error(where(matrix.parts[0]) + " has " + std::to_string(values[bad]) + " as element " +
              std::to_string(row * matrix.inputs() + bad) + "; weights must be finite");
}

/// Writes one row of a block format: every block has one scale, and a minimum if the format has minimums.
void write_blocks(const QuantizedMatrix& matrix, const CodeRows& numbers, std::uint64_t first, std::uint64_t row,
                  std::uint8_t* to) {
  const float* const codes = numbers.codes.data() + row * matrix.inputs();
  const bool powers = traits(matrix.format).scales == 0;
  const auto too_large = [powers](float value) {
    return powers ? exponent_of(value) > mxfp4_exponent_max : !std::isfinite(f16_to_f32(f32_to_f16(value)));
  };
  QuantizationBlock block = {};
  std::fill_n(block.s, 2, 1);
  for (std::uint64_t begin = 0; begin < matrix.inputs(); begin += block_inputs) {
    const std::uint64_t group = begin / matrix.group_inputs;
    const std::uint64_t at = row * matrix.groups() + group;
    block.d = numbers.scales[at];
    const float zero = numbers.zeros.empty() ? 0 : numbers.zeros[at];
    if (!numbers.minimums.empty()) {
      block.dmin = -numbers.minimums[at];
      std::fill_n(block.m, 2, 1);
    }
    const char* const too_large_text = powers ? "which is too large for weights; load another export"
                                              : "which is too large for f16; load another export";
    if (too_large(block.d)) fail_scale(matrix, block.d, first + row, group, too_large_text);
    if (too_large(block.dmin)) fail_bias(matrix, -block.dmin, first + row, group, too_large_text);
    for (std::uint64_t i = 0; i < block_inputs; ++i) {
      block.q[i] = static_cast<std::int8_t>(codes[begin + i] - zero);
    }
    write_block(matrix.format, block, to);
    to += traits(matrix.format).block_bytes;
  }
}

void put_values(const QuantizedMatrix& matrix, const CodeRows& numbers, std::uint64_t row, float* to) {
  const std::uint64_t inputs = matrix.inputs();
  const float* const codes = numbers.codes.data() + row * inputs;
  const auto at = [&](const std::vector<float>& of, std::uint64_t group) {
    return of.empty() ? 0.0F : of[row * matrix.groups() + group];
  };
  if (!matrix.order.empty()) {
    for (std::uint64_t i = 0; i < inputs; ++i) {
      const std::uint32_t group = matrix.order[i];
      to[i] = at(numbers.scales, group) * (codes[i] - at(numbers.zeros, group));
    }
    return;
  }
  for (std::uint64_t group = 0; group < matrix.groups(); ++group) {
    const Span span = span_of(matrix, group);
    const float scale = at(numbers.scales, group);
    const float zero = at(numbers.zeros, group);
    for (std::uint64_t i = span.begin; i < span.end; ++i) to[i] = scale * (codes[i] - zero);
    if (numbers.minimums.empty()) continue;
    const float minimum = at(numbers.minimums, group);
    for (std::uint64_t i = span.begin; i < span.end; ++i) to[i] += minimum;
  }
}

}  // namespace

std::uint64_t QuantizedMatrix::rows() const noexcept {
  std::uint64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= static_cast<std::uint64_t>(shape[i]);
  return rows;
}

void choose_format(QuantizedMatrix& matrix, int min, int max, bool has_minimums) {
  const bool in_blocks = matrix.order.empty() && matrix.inputs() % block_inputs == 0 &&
                         (matrix.group_inputs % block_inputs == 0 || matrix.groups() == 1);
  for (const Format format : {Format::q4_0, Format::q4_1, Format::q5_0, Format::q5_1, Format::q8_0}) {
    const FormatTraits& block = traits(format);
    const int codes = 1 << block.code_bits;
    const int lowest = format == Format::q8_0 ? -codes / 2 : -block.offset;
    const bool holds = lowest <= min && max < lowest + codes && block.has_minimums == has_minimums;
    matrix.format = format;
    if (in_blocks && holds) return;
  }
  matrix.format = matrix.parts[1].type_name == "F16" ? Format::f16 : Format::bf16;
}

void read_exact_values(const QuantizedMatrix& matrix, std::uint64_t first, std::uint64_t rows, float* to) {
  const CodeRows numbers = checked_rows(matrix, first, rows);
  for (std::uint64_t row = 0; row < rows; ++row, to += matrix.inputs()) {
    put_values(matrix, numbers, row, to);
    require_finite(matrix, first + row, to);
  }
}

void read_quantized_rows(const QuantizedMatrix& matrix, std::uint64_t first, std::uint64_t rows, void* to) {
  const CodeRows numbers = checked_rows(matrix, first, rows);
  const int inputs = static_cast<int>(matrix.inputs());
  const std::size_t bytes = row_bytes(matrix.format, inputs);
  std::vector<float> values(is_float(matrix.format) ? matrix.inputs() : 0);
  auto* at = static_cast<std::uint8_t*>(to);
  for (std::uint64_t row = 0; row < rows; ++row, at += bytes) {
    if (!is_float(matrix.format)) {
      write_blocks(matrix, numbers, first, row, at);
      continue;
    }
    put_values(matrix, numbers, row, values.data());
    require_finite(matrix, first + row, values.data());
    quantize_row(matrix.format, values.data(), inputs, at);
  }
}

}  // namespace draftproof
