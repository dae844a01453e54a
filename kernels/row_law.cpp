// SPDX-License-Identifier: MIT
#include "kernels/row_law.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/operations.h"

namespace draftproof {
namespace {

/// Pseudorandom numbers in (-1, 1) with full mantissas, so that another order of summation changes the last bits.
class Numbers {
 public:
  float next() noexcept {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  std::uint64_t state_ = 1;
};

enum class Neighbors { zero, random, huge };

bool keeps(const Kernels& table, int outputs, int inputs) {
  Numbers numbers;
  const auto filled = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = numbers.next();
    return values;
  };
  const std::size_t width = static_cast<std::size_t>(inputs);
  const std::vector<float> weights = filled(width * outputs);
  const MatrixView part = {weights.data(), Format::f32, outputs, inputs};
  const PackedMatrix packed(table, {&part, 1});
  const std::vector<float> row = filled(width);
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
        std::vector<float> x = filled(width * rows);
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

}  // namespace

bool keeps_row_law(const Kernels& table) noexcept {
  try {
    return keeps(table, 35, 61) && keeps(table, table.unit + 17, 389);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace draftproof
