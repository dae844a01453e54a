// SPDX-License-Identifier: MIT
// Whole operations: an entry of the table, cut into ranges and run on all threads. The cuts never change a bit.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace draftproof {

/// Threads used by every operation of the process, at least 1; all of the machine's until set. Bits never depend on it.
void set_threads(int count) noexcept;
int threads() noexcept;

/// Runs `lead` on the calling thread with all others at hand for the operations in it: opening them costs tens of
/// microseconds, so a whole text is decoded in one call. Inside another call, or with one thread, just runs `lead`.
/// What `lead` throws comes out of it. Operations outside of any such call open one each.
void with_workers(const std::function<void()>& lead);

/// Zeroed memory, 64-byte aligned; from 2 MiB on in huge pages where the system gives them, and each page in the memory
/// of the core that first writes to it. Throws std::bad_alloc.
struct FreeAligned {
  std::size_t mapped = 0;  // bytes, or 0 for small memory
  void operator()(void* memory) const noexcept;
};
template <class T>
using Aligned = std::unique_ptr<T[], FreeAligned>;
Aligned<std::byte> allocate_aligned(std::size_t bytes);
template <class T>
Aligned<T> aligned(std::size_t count) {
  if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
  Aligned<std::byte> kv = allocate_aligned(count * sizeof(T));
  const FreeAligned free = kv.get_deleter();
  return Aligned<T>(reinterpret_cast<T*>(kv.release()), free);
}

/// Rows of a weight as a checkpoint gives them: `read` puts rows [first, first + count) as the format lays them down to
/// `rows`, 64-byte aligned, and may be called from several threads at once. What it throws comes out of PackedMatrix.
struct MatrixSource {
  Format format;
  int outputs;
  int inputs;
  std::function<void(int first, int count, void* rows)> read;
};

/// A weight laid out once for one table: one part, or several of equal inputs, one below the other.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// Copies; parts keep their formats. Beside the packed form only some rows are in memory at a time. Throws
  /// std::bad_alloc.
  PackedMatrix(const Kernels& kernels, std::span<const MatrixSource> parts);
  PackedMatrix(const Kernels& kernels, std::span<const MatrixView> parts);

  int outputs() const noexcept { return outputs_; }
  int inputs() const noexcept { return inputs_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Neighbors of one format are one part.
  struct Part {
    PackedView view;
    int first;  // output
  };
  std::span<const Part> parts() const noexcept { return parts_; }

  /// Output `output` as a row of floats.
  void unpack_row(const Kernels& kernels, int output, float* row) const noexcept;

  /// Which operands the parts are multiplied with.
  bool wants(ActivationFormat activation_format) const noexcept { return wants_[static_cast<std::size_t>(activation_format)]; }

 private:
  int outputs_ = 0;
  int inputs_ = 0;
  std::size_t bytes_ = 0;
  std::vector<Part> parts_;
  std::vector<Aligned<std::byte>> data_;  // of each part
  std::array<bool, activation_formats> wants_{};
};

/// Rows as weights are multiplied with them, see Kernels::prepare. Memory is kept from use to use.
class PackedActivations {
 public:
  /// Room for `rows` rows in the forms that `w` wants.
  void reserve(const Kernels& kernels, const PackedMatrix& w, int rows);

  /// Lays inputs [begin, end) down, cut as Kernels::prepare asks; for bodies of parallel_ranges.
  void pack_activations(const float* x, std::ptrdiff_t x_stride, int begin, int end) noexcept;

  int rows() const noexcept { return rows_; }
  const void* of(ActivationFormat activation_format) const noexcept { return data_[static_cast<std::size_t>(activation_format)].get(); }

 private:
  const Kernels* kernels_ = nullptr;
  int rows_ = 0;
  int inputs_ = 0;
  std::array<bool, activation_formats> wanted_{};
  std::array<std::size_t, activation_formats> bytes_{};
  std::array<Aligned<std::byte>, activation_formats> data_;
};

/// Lays x [rows][x_stride] down for `w`.
void pack_activations(const Kernels& kernels, const PackedMatrix& w, const float* x, std::ptrdiff_t x_stride, int rows,
             PackedActivations& to);

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
