// SPDX-License-Identifier: MIT
// Whole operations: an entry of the table, cut into ranges and run on all threads. The cuts never change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/aligned.h"
#include "kernels/kernels.h"
#include "kernels/packed_activations.h"
#include "kernels/packed_matrix.h"

namespace draftproof {

// Of a matrix that is cut every rank gets all results, in one exchange.

/// Writes outputs of `w` as rows of floats, [outputs.size()][w.inputs()]. All outputs exist.
void unpack_rows(const Kernels& kernels, const PackedMatrix& w, std::span<const std::int32_t> outputs, float* rows);

/// y [rows][y_stride] = x . w^T, where x was last packed for `w`.
void matmul(const Kernels& kernels, const PackedMatrix& w, const PackedActivations& x, float* y,
            std::ptrdiff_t y_stride);

/// The same for outputs from `first` on; those before it may or may not be written.
void matmul_from(const Kernels& kernels, const PackedMatrix& w, int first, const PackedActivations& x, float* y,
                 std::ptrdiff_t y_stride);

/// matmul that returns false when an output is NaN.
bool matmul_of_numbers(const Kernels& kernels, const PackedMatrix& w, const PackedActivations& x, float* y,
                       std::ptrdiff_t y_stride);

/// Scratch memory of attention, kept from call to call.
class AttentionScratch {
 public:
  /// Makes room for the present number of threads and at most `rows` rows, which see positions in [0, positions).
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

/// The queries of one text in a pass, and the keys and values that they attend to.
struct AttentionJob {
  const KeyValues* kv;
  const float* q;          // [rows][q_stride]
  const Visible* visible;  // [rows]
  int rows;
  float* out;  // [rows][heads * value_dim]
};

/// Computes all jobs. The scratch was reserved for the largest of them.
void attention(const Kernels& kernels, const AttentionShape& shape, std::span<const AttentionJob> jobs,
               std::ptrdiff_t q_stride, const AttentionScratch& scratch);

/// Keys and values of consecutive positions, to be stored.
struct StoreJob {
  const KeyValues* kv;
  int position;
  int rows;
  const float* keys;    // [rows][stride]
  const float* values;  // [rows][stride]; of latent keys nullptr
};

/// store_positions, of all jobs and all their KV heads. No two jobs write to one place.
void store(std::span<const StoreJob> jobs, std::ptrdiff_t stride);

/// causal_conv_silu of channels [begin, end).
void causal_conv_silu(const Kernels& kernels, const float* tail, const float* x, std::ptrdiff_t x_stride, int rows,
                      int channels, int width, const float* weight, int begin, int end, float* out,
                      std::ptrdiff_t out_stride);

/// gated_delta_rule of all value heads.
void gated_delta_rule(const Kernels& kernels, const DeltaShape& shape, const DeltaRows& folded, const float* q,
                      std::ptrdiff_t q_stride, int rows, const float* from, float* to, float* out);

}  // namespace draftproof
