// SPDX-License-Identifier: MIT
// Shared by the kernel tests: numbers, exact comparison, tables, layouts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/operations.h"

namespace draftproof::test {

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// u, the largest relative error of one rounding, and gamma_n = n u / (1 - n u), which bounds the relative error of n
/// roundings in a row (N. J. Higham, "Accuracy and Stability of Numerical Algorithms", lemma 3.1).
inline constexpr double unit_roundoff = 0x1p-24;
inline double gamma(double n) { return n * unit_roundoff / (1 - n * unit_roundoff); }

/// Reproducible numbers with full mantissas in (-1, 1), the same on every machine.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2 + 1) { next(); }

  std::uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  float number() { return static_cast<float>(static_cast<std::int32_t>(next())) * 0x1p-31f; }
  int below(int end) { return static_cast<int>(std::uint64_t{next()} * static_cast<std::uint64_t>(end) >> 32); }
  std::vector<float> numbers(std::size_t count, float scale = 1) {
    std::vector<float> values(count);
    for (float& value : values) value = number() * scale;
    return values;
  }

 private:
  std::uint64_t state_;
};

inline std::uint32_t bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }

/// Whether the bits are equal, where any two NaNs are equal; reports the first difference.
inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " floats";
  if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) return ::testing::AssertionSuccess();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (bits(a[i]) != bits(b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]))) {
      return ::testing::AssertionFailure() << "index " << i << " of " << a.size() << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

inline const Kernels& scalar() { return *find_kernels("scalar"); }

/// Returns the tables that must give the bits of `scalar` and that this CPU supports.
inline std::vector<const Kernels*> canonical_tables() {
  std::vector<const Kernels*> tables;
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (std::string((*table)->numerics) == "canonical" && *table != &scalar() && (*table)->supported()) {
      tables.push_back(*table);
    }
  }
  return tables;
}

inline constexpr Format all_formats[] = {Format::f32,  Format::f16,  Format::bf16, Format::q8_0,
                                         Format::q4_0, Format::q4_k, Format::q5_k, Format::q6_k};
inline bool is_float(Format format) { return traits(format).block_inputs == 1; }

/// A weight of random numbers; all fields of quantization blocks are random, with moderate scales.
struct Weight {
  Format format;
  int outputs;
  int inputs;
  std::vector<std::byte> data;

  Weight(Format format_, int outputs_, int inputs_, std::uint64_t seed)
      : format(format_), outputs(outputs_), inputs(inputs_) {
    Numbers numbers(seed);
    data.resize(row_bytes(format, inputs) * static_cast<std::size_t>(outputs));
    if (is_float(format)) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(outputs) * inputs; ++i) {
        const std::uint32_t wide = bits(numbers.number() * 0.25f);
        const std::uint16_t half = static_cast<std::uint16_t>((wide >> 16 & 0x8000) | numbers.below(0x3c00));
        const std::uint16_t top = static_cast<std::uint16_t>(wide >> 16);
        if (format == Format::f32) std::memcpy(&data[4 * i], &wide, 4);
        if (format == Format::bf16) std::memcpy(&data[2 * i], &top, 2);
        if (format == Format::f16) std::memcpy(&data[2 * i], &half, 2);
      }
      return;
    }
    for (std::byte& byte : data) byte = static_cast<std::byte>(numbers.below(256));
    const std::size_t block = static_cast<std::size_t>(traits(format).block_bytes);
    const std::size_t scale = format == Format::q6_k ? 208 : 0;
    for (std::size_t at = 0; at < data.size(); at += block) {
      for (std::size_t i = 0; i < (format == Format::q4_k || format == Format::q5_k ? 2 : 1); ++i) {
        const std::uint16_t half = static_cast<std::uint16_t>(numbers.below(2) << 15 | numbers.below(0x3000));
        std::memcpy(&data[at + scale + 2 * i], &half, 2);
      }
    }
  }
  MatrixView view() const { return {data.data(), format, outputs, inputs}; }
  PackedMatrix packed(const Kernels& kernels) const {
    const MatrixView part = view();
    return PackedMatrix(kernels, {&part, 1});
  }
};

/// Runs a table's pack_activations and matmul for outputs [begin, end) of a weight of one part.
inline void multiply(const Kernels& kernels, const PackedMatrix& w, const float* x, std::ptrdiff_t x_stride, int rows,
                     float* y, std::ptrdiff_t y_stride, int begin, int end) {
  const PackedView& view = w.parts()[0].view;
  const ActivationFormat activation_format = kernels.activation_format(view.format);
  const std::size_t bytes = kernels.activation_bytes(activation_format, rows, view.inputs);
  const Aligned<std::byte> activations = aligned<std::byte>(bytes);
  kernels.pack_activations(activation_format, x, x_stride, rows, view.inputs, 0, view.inputs, activations.get());
  kernels.matmul(view, activations.get(), rows, y, y_stride, begin, end);
}

/// Runs the whole operation, on all threads.
inline void multiply(const Kernels& kernels, const PackedMatrix& w, const float* x, int rows, float* y,
                     std::ptrdiff_t y_stride) {
  PackedActivations activation_formats;
  pack_activations(kernels, w, x, w.inputs(), rows, activation_formats);
  matmul(kernels, w, activation_formats, y, y_stride);
}

/// Keys and values of positions [first, end) of a layer, whose content depends on the logical position only. All other
/// memory is filled with one bits: NaN as f32 and bf16, and as a scale of q8.
class Stored {
 public:
  Stored(const AttentionShape& shape, KvFormat format, int blocks, int first, int end)
      : bytes_(key_values_bytes(format, shape.kv_heads, shape.head_dim, blocks)),
        data_(aligned<std::byte>(bytes_)),
        view_(key_values_in(data_.get(), format, shape.kv_heads, shape.head_dim, blocks)) {
    std::fill_n(data_.get(), bytes_, std::byte{0xff});
    for (int p = first; p < end; ++p) {
      std::vector<float> keys;
      std::vector<float> values;
      for (int h = 0; h < shape.kv_heads; ++h) {
        for (int d = 0; d < shape.head_dim; ++d) {
          Numbers numbers(5 + 7919u * static_cast<unsigned>(p) + 104729u * static_cast<unsigned>(h) +
                          15485863u * static_cast<unsigned>(d));
          keys.push_back(numbers.number());
          values.push_back(numbers.number());
        }
      }
      put(p, keys, values);
    }
  }
  void put(int position, const std::vector<float>& keys, const std::vector<float>& values) {
    store_positions(view_, position, 1, keys.data(), values.data(), 0, 0, view_.kv_heads);
  }
  const KeyValues& view() const { return view_; }

 private:
  std::size_t bytes_;
  Aligned<std::byte> data_;
  KeyValues view_;
};

inline constexpr KvFormat all_kv_formats[] = {KvFormat::f32, KvFormat::bf16, KvFormat::q8};

}  // namespace draftproof::test
