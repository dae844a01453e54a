// SPDX-License-Identifier: MIT
#include "kernels/row_law.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "kernels/operations.h"
#include "kernels/threads.h"

namespace draftproof {
namespace {

/// Pseudorandom numbers in (-1, 1) with full mantissas, so that another order of summation changes the last bits.
class Pseudorandom {
 public:
  float next() noexcept {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }
  std::vector<float> next(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = next();
    return values;
  }

 private:
  std::uint64_t state_ = 1;
};

enum class Neighbors { zero, random, huge };

bool keeps_matmul(const Kernels& table, int outputs, int inputs) {
  Pseudorandom numbers;
  const std::size_t width = static_cast<std::size_t>(inputs);
  const std::vector<float> weights = numbers.next(width * outputs);
  const MatrixView part = {weights.data(), Format::f32, outputs, inputs};
  const PackedMatrix packed(table, {&part, 1});
  const std::vector<float> row = numbers.next(width);
  std::vector<float> alone(outputs);
  PackedActivations packed_activations;
  pack_activations(table, packed, row.data(), inputs, 1, packed_activations);
  const PackedView& view = packed.parts()[0].view;
  const void* const activations = packed_activations.of(table.activation_format(view.format));
  table.matmul(view, activations, 1, alone.data(), outputs, 0, outputs);

  const int cut = outputs / 2 / table.unit * table.unit;
  for (const int rows : {2, 3, 5, 7, 8, 9, 16, 17, 33}) {
    std::vector<float> y(static_cast<std::size_t>(rows) * outputs);
    for (const Neighbors neighbors : {Neighbors::zero, Neighbors::random, Neighbors::huge}) {
      for (const int at : {0, 1, rows / 2, rows - 1}) {
        std::vector<float> x = numbers.next(width * rows);
        for (float& value : x) {
          if (neighbors == Neighbors::zero) value = 0;
          if (neighbors == Neighbors::huge) value = value < 0 ? -1e30f : 1e30f;
        }
        std::memcpy(x.data() + width * at, row.data(), width * sizeof(float));
        pack_activations(table, packed, x.data(), inputs, rows, packed_activations);
        const void* const all = packed_activations.of(table.activation_format(view.format));
        table.matmul(view, all, rows, y.data(), outputs, 0, cut);
        table.matmul(view, all, rows, y.data(), outputs, cut, outputs);
        const float* mine = y.data() + static_cast<std::size_t>(at) * outputs;
        if (std::memcmp(mine, alone.data(), alone.size() * sizeof(float)) != 0) return false;
      }
    }
  }
  return true;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The convolution of all rows at once equals that of each row alone, with the channels cut.
bool keeps_conv(const Kernels& table, int channels, int width) {
  constexpr int rows = 6;
  Pseudorandom numbers;
  const auto size = static_cast<std::size_t>(channels);
  const std::vector<float> inputs = numbers.next(size * static_cast<std::size_t>(width - 1 + rows));
  const std::vector<float> weight = numbers.next(size * static_cast<std::size_t>(width));
  const float* const first = inputs.data() + size * static_cast<std::size_t>(width - 1);
  std::vector<float> together(size * rows);
  std::vector<float> alone(size * rows);
  table.causal_conv_silu(inputs.data(), first, channels, rows, channels, width, weight.data(), 0, channels,
                         together.data(), channels);
  for (int r = 0; r < rows; ++r) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r) * channels;
    const int cut = channels / (r + 2);
    for (const auto& [begin, end] : {std::pair{0, cut}, {cut, channels}}) {
      table.causal_conv_silu(inputs.data() + at, first + at, channels, 1, channels, width, weight.data(), begin, end,
                             alone.data() + at, channels);
    }
  }
  return same_bits(together, alone);
}

/// The delta rule of all rows at once equals that of one row after the other, with the heads cut.
bool keeps_delta_rule(const Kernels& table, const DeltaShape& shape) {
  constexpr int rows = 5;
  Pseudorandom numbers;
  const auto keys = static_cast<std::ptrdiff_t>(shape.key_heads) * shape.key_dim;
  const auto values = static_cast<std::ptrdiff_t>(shape.value_heads) * shape.value_dim;
  const std::ptrdiff_t decays = static_cast<std::ptrdiff_t>(shape.value_heads) * delta_decays(shape);
  const std::ptrdiff_t stride = keys + values + decays + shape.value_heads;
  const std::vector<float> folded = numbers.next(static_cast<std::size_t>(rows * stride));
  const std::vector<float> q = numbers.next(static_cast<std::size_t>(rows * keys));
  const std::vector<float> before = numbers.next(delta_state_floats(shape));
  const float* const row = folded.data();
  const DeltaRows in = {row, row + keys, row + keys + values, row + keys + values + decays, stride};
  std::vector<float> together = before;  // the same padding
  std::vector<float> outs(static_cast<std::size_t>(rows * values));
  table.gated_delta_rule(shape, in, q.data(), keys, rows, 0, shape.value_heads, before.data(), together.data(),
                         outs.data());
  std::vector<float> state = before;
  std::vector<float> out(outs.size());
  for (int r = 0; r < rows; ++r) {
    const std::ptrdiff_t at = r * stride;
    const DeltaRows one = {in.keys + at, in.values + at, in.decays + at, in.betas + at, stride};
    for (int head = 0; head < shape.value_heads; ++head) {
      table.gated_delta_rule(shape, one, q.data() + r * keys, keys, 1, head, head + 1, state.data(), state.data(),
                             out.data() + r * values);
    }
  }
  std::vector<float> replayed = before;
  table.gated_delta_rule(shape, in, nullptr, 0, rows, 0, shape.value_heads, before.data(), replayed.data(), nullptr);
  return same_bits(together, state) && same_bits(outs, out) && same_bits(together, replayed);
}

}  // namespace

bool keeps_row_law(const Kernels& table) noexcept {
  bool keeps = false;
  try {
    with_workers([&] {  // once for all operations
      keeps = keeps_matmul(table, 35, 61) && keeps_matmul(table, table.unit + 17, 389) && keeps_conv(table, 45, 4) &&
              keeps_delta_rule(table, {.key_heads = 1, .value_heads = 2, .key_dim = 20, .value_dim = 85}) &&
              keeps_delta_rule(
                  table, {.key_heads = 2, .value_heads = 2, .key_dim = 20, .value_dim = 85, .channel_decays = true});
    });
  } catch (const std::bad_alloc&) {
    return false;
  }
  return keeps;
}

}  // namespace draftproof
