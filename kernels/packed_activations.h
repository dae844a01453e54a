// SPDX-License-Identifier: MIT
// Activation rows in the forms that packed weights are multiplied with.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/aligned.h"
#include "kernels/packed_matrix.h"

namespace draftproof {

/// Activation rows, packed for weights (see Kernels::pack_activations). Memory is kept from use to use.
class PackedActivations {
 public:
  /// Makes room for `rows` rows in the formats that `w` needs.
  void reserve(const Kernels& kernels, const PackedMatrix& w, int rows);

  /// Packs inputs [begin, end), cut as Kernels::pack_activations requires; for bodies of parallel_ranges.
  void pack(const float* x, std::ptrdiff_t x_stride, int begin, int end) noexcept;

  int rows() const noexcept { return rows_; }
  const void* of(ActivationFormat format) const noexcept { return data_[static_cast<std::size_t>(format)].get(); }

 private:
  const Kernels* kernels_ = nullptr;
  int rows_ = 0;
  int inputs_ = 0;
  std::array<bool, activation_formats> wanted_{};
  std::array<std::size_t, activation_formats> bytes_{};
  std::array<Aligned<std::byte>, activation_formats> data_;
};

/// Packs x [rows][x_stride] for `w`.
void pack_activations(const Kernels& kernels, const PackedMatrix& w, const float* x, std::ptrdiff_t x_stride, int rows,
                      PackedActivations& to);

}  // namespace draftproof
