// SPDX-License-Identifier: MIT
#include "kernels/operations.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "kernels/parallel.h"

namespace draftproof {
namespace {

constexpr const char* short_spins = "1000";  // costs idle machines a tenth; see the notebook

constexpr std::size_t huge_page = std::size_t{1} << 21;

/// Most threads that share one attention call: each needs its own scores.
constexpr int attention_workers = 32;

std::atomic<int> thread_count{0};  // 0: not set yet

std::size_t element_bytes(Format format) { return format == Format::f32 ? 4 : 2; }

/// Outputs [first, first + count) of `rows`.
MatrixView part_of(const MatrixView& rows, int first, int count) {
  const std::size_t offset = static_cast<std::size_t>(first) * rows.inputs * element_bytes(rows.format);
  return {static_cast<const std::byte*>(rows.data) + offset, rows.format, count, rows.inputs};
}

std::size_t scores_of_one(const AttentionShape& shape, int positions) {
  return static_cast<std::size_t>(shape.heads / shape.kv_heads) * (static_cast<std::size_t>(positions) + 32);
}

}  // namespace

void set_threads(int count) noexcept { thread_count.store(count < 1 ? 1 : count, std::memory_order_relaxed); }

int threads() noexcept {
  const int count = thread_count.load(std::memory_order_relaxed);
  if (count > 0) return count;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores > 0 ? cores : 1;
}

void restart_with_short_spins(char** argv) noexcept {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", short_spins, 1) != 0) return;
  execv("/proc/self/exe", argv);  // comes back only where that is not to be had; then it is slower, no more
}

void FreeAligned::operator()(void* memory) const noexcept { std::free(memory); }

void* allocate_aligned(std::size_t bytes) {
  const std::size_t alignment = bytes >= huge_page ? huge_page : 64;
  if (bytes > SIZE_MAX - alignment) throw std::bad_alloc();
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (alignment == huge_page) madvise(memory, rounded, MADV_HUGEPAGE);  // a wish; failure costs only speed
#endif
  std::memset(memory, 0, rounded);
  return memory;
}

PackedMatrix::PackedMatrix(const Kernels& kernels, std::span<const MatrixView> parts) {
  view_.format = parts.empty() ? Format::f32 : Format::bf16;
  for (const MatrixView& part : parts) {
    if (part.format != Format::bf16) view_.format = Format::f32;
    view_.outputs += part.outputs;
    view_.inputs = part.inputs;
  }
  bytes_ = kernels.packed_bytes(view_.format, view_.outputs, view_.inputs);
  data_ = aligned<std::byte>(bytes_);
  view_.data = data_.get();

  int first = 0;
  for (const MatrixView& part : parts) {
    // Whole units, so that two threads meet in a cache line at most where a part starts inside a panel.
    const int units = (part.outputs + kernels.unit - 1) / kernels.unit;
    const double elements = static_cast<double>(part.outputs) * part.inputs;
    parallel_ranges(units, elements, units, [&](int begin, int end, int) {
      const int from = begin * kernels.unit;
      const int to = end * kernels.unit < part.outputs ? end * kernels.unit : part.outputs;
      kernels.pack(part_of(part, from, to - from), first + from, view_.format, data_.get());
    });
    first += part.outputs;
  }
}

void matmul(const Kernels& kernels, const PackedMatrix& w, const float* x, int rows, float* y,
            std::ptrdiff_t y_stride) {
  matmul_from(kernels, w, 0, x, rows, y, y_stride);
}

void matmul_from(const Kernels& kernels, const PackedMatrix& w, int first, const float* x, int rows, float* y,
                 std::ptrdiff_t y_stride) {
  const int skipped = first / kernels.unit;
  const int units = (w.outputs() + kernels.unit - 1) / kernels.unit - skipped;
  const double work = static_cast<double>(rows) * units * kernels.unit * w.inputs();
  parallel_ranges(units, work, units, [&](int begin, int end, int) {
    const int from = (skipped + begin) * kernels.unit;
    const int to = (skipped + end) * kernels.unit;
    kernels.matmul(w.view(), x, rows, y, y_stride, from, to < w.outputs() ? to : w.outputs());
  });
}

void attention(const Kernels& kernels, const AttentionShape& shape, const KeyValues& memory, const float* q,
               std::ptrdiff_t q_stride, const Visible* visible, int rows, float* scores, float* out) {
  int positions = 0;
  double work = 0;
  for (int r = 0; r < rows; ++r) {
    const int seen = visible[r].end - visible[r].first;
    positions = seen > positions ? seen : positions;
    work += 2.0 * seen * shape.heads * shape.head_dim;
  }
  const std::size_t room = scores_of_one(shape, positions);
  const std::ptrdiff_t width = static_cast<std::ptrdiff_t>(shape.heads) * shape.head_dim;
  // A kv head's rows follow each other, so that its keys and values stay in the cache of one core.
  parallel_ranges(shape.kv_heads * rows, work, attention_workers, [&](int begin, int end, int worker) {
    for (int task = begin; task < end; ++task) {
      const int head = task / rows;
      const int r = task % rows;
      kernels.attention(shape, memory, q + r * q_stride, visible[r], scores + room * worker, out + r * width, head,
                        head + 1);
    }
  });
}

std::size_t attention_scratch(const AttentionShape& shape, int positions) noexcept {
  return attention_workers * scores_of_one(shape, positions);
}

}  // namespace draftproof
