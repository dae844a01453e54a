// SPDX-License-Identifier: MIT
// Whole operations: an entry of the table, cut into ranges and run on all threads. The cuts never change a bit.
#pragma once

#include <cstddef>

#include "kernels/aligned.h"
#include "kernels/kernels.h"
#include "kernels/packed_activations.h"
#include "kernels/packed_matrix.h"

namespace draftproof {

/// y [rows][y_stride] = x . w^T, x being what was last prepared for `w`.
void matmul(const Kernels& kernels, const PackedMatrix& w, const PackedActivations& x, float* y, std::ptrdiff_t y_stride);

/// The same for outputs from `first` on only; those before it may be written or left alone.
void matmul_from(const Kernels& kernels, const PackedMatrix& w, int first, const PackedActivations& x, float* y,
                 std::ptrdiff_t y_stride);

/// matmul; false when an output is NaN.
bool matmul_of_numbers(const Kernels& kernels, const PackedMatrix& w, const PackedActivations& x, float* y,
                       std::ptrdiff_t y_stride);

/// Memory that attention works in, kept from use to use.
class AttentionScratch {
 public:
  /// Room for as many threads as there are now, and at most `rows` rows, which see positions of [0, positions) only.
  void reserve(const AttentionShape& shape, int rows, int positions);

  /// Bytes for as many threads as there are now and at most `rows` rows: those beside the scores, and those of the
  /// scores for each position that is seen.
  static std::size_t bytes(const AttentionShape& shape, int rows) noexcept;
  static std::size_t bytes_per_position(const AttentionShape& shape, int rows) noexcept;

  int workers() const noexcept { return workers_; }
  float* of(int worker) const noexcept { return data_.get() + each_ * static_cast<std::size_t>(worker); }

 private:
  int workers_ = 0;
  std::size_t each_ = 0;  // floats
  std::size_t size_ = 0;
  Aligned<float> data_;
};

/// out [rows][heads * head_dim] from q [rows][q_stride]; visible [rows]. The scratch was reserved for such a call.
void attention(const Kernels& kernels, const AttentionShape& shape, const KeyValues& kv, const float* q,
               std::ptrdiff_t q_stride, const Visible* visible, int rows, const AttentionScratch& scratch, float* out);

/// store_positions, of all kv heads.
void store(const KeyValues& kv, int position, int rows, const float* keys, const float* values,
           std::ptrdiff_t stride);

}  // namespace draftproof
