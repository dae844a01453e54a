// SPDX-License-Identifier: MIT
// Whole operations: an entry of the table, cut into ranges and run on all threads. The cuts never change a bit.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "kernels/kernels.h"

namespace draftproof {

/// Threads used by every operation of the process, at least 1; all of the machine's until set. Bits never depend on it.
void set_threads(int count) noexcept;
int threads() noexcept;

/// For main, first thing: keeps waiting threads from spinning long. How long they do is read from the environment while
/// the OpenMP runtime loads, before main; its default, milliseconds, makes two threads hundreds of times slower than
/// one when another program has a core. So, unless the user has set it, sets it and starts the program anew.
void restart_with_short_spins(char** argv) noexcept;

/// 64-byte aligned memory (huge pages where the system gives them), zeroed; throws std::bad_alloc.
struct FreeAligned {
  void operator()(void* memory) const noexcept;
};
template <class T>
using Aligned = std::unique_ptr<T[], FreeAligned>;
void* allocate_aligned(std::size_t bytes);
template <class T>
Aligned<T> aligned(std::size_t count) {
  if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
  return Aligned<T>(static_cast<T*>(allocate_aligned(count * sizeof(T))));
}

/// A weight laid out once for one table.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// The parts, of equal inputs, one below the other, copied. bf16 when every part is; else widened, exactly, to f32.
  /// Throws std::bad_alloc.
  PackedMatrix(const Kernels& kernels, std::span<const MatrixView> parts);

  int outputs() const noexcept { return view_.outputs; }
  int inputs() const noexcept { return view_.inputs; }
  std::size_t bytes() const noexcept { return bytes_; }
  const PackedView& view() const noexcept { return view_; }

 private:
  PackedView view_{};
  std::size_t bytes_ = 0;
  Aligned<std::byte> data_;
};

/// y [rows][y_stride] = x [rows][inputs] . w^T
void matmul(const Kernels& kernels, const PackedMatrix& w, const float* x, int rows, float* y, std::ptrdiff_t y_stride);

/// The same for outputs from `first` on only; those before it may be written or left alone.
void matmul_from(const Kernels& kernels, const PackedMatrix& w, int first, const float* x, int rows, float* y,
                 std::ptrdiff_t y_stride);

/// out [rows][heads * head_dim] from q [rows][q_stride]; visible [rows]. scores: attention_scratch(shape, positions)
/// floats, for the most positions that one row sees; enough for every number of threads.
void attention(const Kernels& kernels, const AttentionShape& shape, const KeyValues& memory, const float* q,
               std::ptrdiff_t q_stride, const Visible* visible, int rows, float* scores, float* out);
std::size_t attention_scratch(const AttentionShape& shape, int positions) noexcept;

}  // namespace draftproof
