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

#include "emulated_amx.h"
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

/// A sink of every head: the first far below all scores, the last far above, the others among them.
inline std::vector<float> some_sinks(int heads) {
  std::vector<float> sinks = Numbers(9).numbers(static_cast<std::size_t>(heads), 4);
  sinks.front() = -50;
  sinks.back() = 60;
  return sinks;
}

inline const Kernels& scalar() { return *find_kernels("scalar"); }

/// Returns the tables that must give the bits of `scalar` and that this CPU supports, and the emulated amx.
inline std::vector<const Kernels*> canonical_tables() {
  std::vector<const Kernels*> tables;
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (std::string((*table)->numerics) == "canonical" && *table != &scalar() && (*table)->supported()) {
      tables.push_back(*table);
    }
  }
  if (emulated_amx() != nullptr) tables.push_back(emulated_amx());
  return tables;
}

inline constexpr Format all_formats[] = {Format::f32,  Format::f16,  Format::bf16,   Format::q8_0,    Format::q4_0,
                                         Format::q4_1, Format::q5_0, Format::q5_1,   Format::iq4_nl,  Format::q4_k,
                                         Format::q5_k, Format::q6_k, Format::iq4_xs, Format::mxfp4,   Format::q2_k,
                                         Format::q3_k, Format::iq1,  Format::iq2,    Format::iq3_xxs, Format::iq3_s};

inline std::vector<Format> quantized_formats() {
  std::vector<Format> result;
  std::ranges::copy_if(all_formats, std::back_inserter(result), [](Format format) { return !is_float(format); });
  return result;
}

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
    for (std::size_t at = 0; at < data.size(); at += block) {
      for (int i = 0; i < traits(format).scales; ++i) {
        const std::uint16_t half = static_cast<std::uint16_t>(numbers.below(2) << 15 | numbers.below(0x3000));
        put_scale(&data[at], i, half);
      }
      if (traits(format).scales == 0) put_power(&data[at], numbers.below(60) + 80);
    }
  }
  /// Writes an f16 scale of the block at `block`.
  void put_scale(std::byte* block, int i, std::uint16_t half) const {
    std::memcpy(block + traits(format).scale + 2 * i, &half, 2);
  }
  /// The same of a scale that is a power of two.
  void put_power(std::byte* block, int exponent) const {
    block[traits(format).scale] = static_cast<std::byte>(exponent);
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
      : bytes_(key_values_bytes(format, shape.kv_heads, shape.head_dim, blocks, shape.latent)),
        data_(aligned<std::byte>(bytes_)),
        view_(key_values_in(data_.get(), format, shape.kv_heads, shape.head_dim, blocks, shape.latent)) {
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

/// Rows of a gated delta net layer: [keys, values, decays, betas] one after the other, then a gap; and their q, and a
/// state. Keys and q have about length 1, as after their norm.
struct DeltaInputs {
  DeltaShape shape;
  int rows;
  std::ptrdiff_t keys, values, decays, stride, q_stride;
  std::vector<float> folded, q, state;

  DeltaInputs(const DeltaShape& shape_, int rows_, std::uint64_t seed)
      : shape(shape_),
        rows(rows_),
        keys(std::ptrdiff_t{shape.key_heads} * shape.key_dim),
        values(std::ptrdiff_t{shape.value_heads} * shape.value_dim),
        decays(std::ptrdiff_t{shape.value_heads} * delta_decays(shape)),
        stride(keys + values + decays + shape.value_heads + 3),
        q_stride(keys + 5) {
    Numbers numbers(seed);
    const float length = std::sqrt(3.0f / static_cast<float>(shape.key_dim));
    q = numbers.numbers(static_cast<std::size_t>(rows * q_stride), length);
    folded = numbers.numbers(static_cast<std::size_t>(rows * stride));
    for (std::ptrdiff_t r = 0; r < rows; ++r) {
      for (std::ptrdiff_t i = 0; i < keys; ++i) folded[r * stride + i] *= length;
      float* const decay = &folded[r * stride + keys + values];
      for (std::ptrdiff_t i = 0; i < decays; ++i) decay[i] = -std::fabs(decay[i]);
      float* const beta = decay + decays;
      for (int h = 0; h < shape.value_heads; ++h) beta[h] = std::fabs(beta[h]);
    }
    state.resize(delta_state_floats(shape));
    for (int h = 0; h < shape.value_heads; ++h) {
      for (int i = 0; i < shape.key_dim; ++i) {
        for (int v = 0; v < shape.value_dim; ++v) state[delta_state_at(shape, h, i, v)] = numbers.number();
      }
    }
  }

  DeltaRows from(int row) const {
    const float* const at = folded.data() + row * stride;
    return {at, at + keys, at + keys + values, at + keys + values + decays, stride};
  }
  const float* query(int row) const { return q.data() + row * q_stride; }

  /// The outputs of all rows, then the state after them, by one call for each of `pieces` rows and each of `heads`
  /// value heads.
  std::vector<float> run(const Kernels& kernels, int pieces, int heads) const {
    std::vector<float> out(static_cast<std::size_t>(rows * values), nan);
    std::vector<float> after(state.size());
    for (int row = 0; row < rows; row += pieces) {
      const int count = std::min(pieces, rows - row);
      for (int head = 0; head < shape.value_heads; head += heads) {
        kernels.gated_delta_rule(shape, from(row), query(row), q_stride, count, head,
                                 std::min(head + heads, shape.value_heads), row == 0 ? state.data() : after.data(),
                                 after.data(), out.data() + row * values);
      }
    }
    const std::vector<float> elements = without_padding(after);
    out.insert(out.end(), elements.begin(), elements.end());
    return out;
  }

  /// The elements of a state in order of value head, key and value dimension.
  std::vector<float> without_padding(const std::vector<float>& padded) const {
    std::vector<float> elements;
    for (int h = 0; h < shape.value_heads; ++h) {
      for (int i = 0; i < shape.key_dim; ++i) {
        for (int v = 0; v < shape.value_dim; ++v) elements.push_back(padded[delta_state_at(shape, h, i, v)]);
      }
    }
    return elements;
  }
};

inline constexpr KvFormat all_kv_formats[] = {KvFormat::f32, KvFormat::bf16, KvFormat::q8};

}  // namespace draftproof::test
