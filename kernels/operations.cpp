// SPDX-License-Identifier: MIT
#include "kernels/operations.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "kernels/parallel.h"

namespace draftproof {
namespace {

constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t small_page = std::size_t{1} << 16;  // on no system more

std::atomic<int> thread_count{0};  // 0: not set yet

/// Bytes of a part that are read at a time, by each thread, while it is packed.
constexpr std::size_t packing_bytes = std::size_t{1} << 20;

/// The queries of one kv head are cut into so many tasks: few, for each reads all keys and values; but enough for every
/// thread, where there are more threads than kv heads.
int tasks_per_head(const AttentionShape& shape, int rows) {
  const int queries = rows * (shape.heads / shape.kv_heads);
  const int least = (queries + attention_queries_max - 1) / attention_queries_max;
  return std::max(least, std::min(threads() / shape.kv_heads, queries));
}

/// Laying a row down costs about this many multiplications of a weight per input.
double preparing_work(int rows, int inputs) { return 16.0 * rows * inputs; }

int units_of(const Kernels& kernels, const PackedMatrix::Part& part) {
  return (part.view.outputs + kernels.unit - 1) / kernels.unit;
}

/// Units that a thread should not be given less of at a time: several are multiplied together.
constexpr int units_together = 12;

/// matmul_from, telling after(begin, end), on the thread that made them, which outputs of all rows are there now.
template <class After>
void multiply(const Kernels& kernels, const PackedMatrix& w, int first, const PackedActivations& x, float* y,
              std::ptrdiff_t y_stride, const After& after) {
  int total = 0;  // units of all parts, those before `first` left out
  const auto skipped_of = [&](const PackedMatrix::Part& part) {
    const int skipped = first > part.first ? (first - part.first) / kernels.unit : 0;
    return std::min(skipped, units_of(kernels, part));
  };
  for (const PackedMatrix::Part& part : w.parts()) total += units_of(kernels, part) - skipped_of(part);
  const double work = static_cast<double>(x.rows()) * total * kernels.unit * w.inputs();
  parallel_ranges(total, work, total, [&](int begin, int end, int) {
    int before = 0;
    for (const PackedMatrix::Part& part : w.parts()) {
      const int skipped = skipped_of(part);
      const int units = units_of(kernels, part) - skipped;
      const int from = (skipped + std::max(begin - before, 0)) * kernels.unit;
      const int to = std::min((skipped + std::min(end - before, units)) * kernels.unit, part.view.outputs);
      before += units;
      if (from >= to) continue;
      kernels.matmul(part.view, x.of(kernels.activation_format(part.view.format)), x.rows(), y + part.first, y_stride, from, to);
      after(part.first + from, part.first + to);
    }
  }, std::clamp(total / (threads() * units_together), 1, 8));
}

/// The first exception of a parallel range, kept until the range is over.
class Failure {
 public:
  template <class Body>
  void guard(const Body& body) noexcept {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

std::vector<MatrixSource> sources_of(std::span<const MatrixView> parts) {
  std::vector<MatrixSource> sources;
  for (const MatrixView& part : parts) {
    const std::size_t bytes = row_bytes(part.format, part.inputs);
    const auto* const data = static_cast<const std::byte*>(part.data);
    sources.push_back({part.format, part.outputs, part.inputs, [=](int first, int count, void* rows) {
                         std::memcpy(rows, data + bytes * static_cast<std::size_t>(first),
                                     bytes * static_cast<std::size_t>(count));
                       }});
  }
  return sources;
}

}  // namespace

void set_threads(int count) noexcept { thread_count.store(count < 1 ? 1 : count, std::memory_order_relaxed); }

int threads() noexcept {
  const int count = thread_count.load(std::memory_order_relaxed);
  if (count > 0) return count;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores > 0 ? cores : 1;
}

void FreeAligned::operator()(void* memory) const noexcept {
  if (mapped > 0) {
    munmap(memory, mapped);
  } else {
    std::free(memory);
  }
}

Aligned<std::byte> allocate_aligned(std::size_t bytes) {
  if (bytes > SIZE_MAX - 2 * huge_page) throw std::bad_alloc();
  if (bytes < huge_page) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes) != 0) throw std::bad_alloc();  // to the byte, so that ASan sees its end
    std::memset(memory, 0, bytes);
    return Aligned<std::byte>(static_cast<std::byte*>(memory), FreeAligned{});
  }
  // A huge page more than asked for, then what lies outside is given back: the start lies on a huge page, but the end
  // does not, or a model of many small weights would take a quarter more than it needs.
  const std::size_t rounded = (bytes + small_page - 1) / small_page * small_page;
  void* const mapped = mmap(nullptr, rounded + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const start = static_cast<std::byte*>(mapped);
  const std::size_t skipped = (huge_page - reinterpret_cast<std::uintptr_t>(start) % huge_page) % huge_page;
  if (skipped > 0) munmap(start, skipped);
  munmap(start + skipped + rounded, huge_page - skipped);
  std::byte* const kv = start + skipped;
#ifdef MADV_HUGEPAGE
  madvise(kv, rounded, MADV_HUGEPAGE);  // a wish; failure costs only speed
#endif
  return Aligned<std::byte>(kv, FreeAligned{rounded});
}

PackedMatrix::PackedMatrix(const Kernels& kernels, std::span<const MatrixSource> sources) {
  for (const MatrixSource& source : sources) {
    if (parts_.empty() || parts_.back().view.format != source.format) {
      parts_.push_back({{nullptr, source.format, 0, source.inputs}, outputs_});
    }
    parts_.back().view.outputs += source.outputs;
    outputs_ += source.outputs;
    inputs_ = source.inputs;
    wants_[static_cast<std::size_t>(kernels.activation_format(source.format))] = true;
  }
  for (Part& part : parts_) {
    const std::size_t bytes = kernels.packed_bytes(part.view.format, part.view.outputs, part.view.inputs);
    data_.push_back(aligned<std::byte>(bytes));
    part.view.data = data_.back().get();
    bytes_ += bytes;
  }

  std::size_t place = 0;
  int first = 0;  // output of the part that the source starts at
  Failure failure;
  const int workers = threads();
  std::vector<std::pair<Aligned<std::byte>, std::size_t>> buffers(static_cast<std::size_t>(workers));
  for (const MatrixSource& source : sources) {
    while (first == parts_[place].view.outputs || parts_[place].view.format != source.format) {
      ++place;
      first = 0;
    }
    // Whole units, so that two threads meet in a cache line at most where a source starts inside a panel.
    const int units = (source.outputs + kernels.unit - 1) / kernels.unit;
    const std::size_t unit_bytes = row_bytes(source.format, source.inputs) * static_cast<std::size_t>(kernels.unit);
    const int together = static_cast<int>(packing_bytes / unit_bytes > 0 ? packing_bytes / unit_bytes : 1);
    const double elements = static_cast<double>(source.outputs) * source.inputs;
    const std::size_t room = unit_bytes * static_cast<std::size_t>(together < units ? together : units);
    std::byte* const packed = data_[place].get();
    parallel_ranges(units, elements, workers, [&](int begin, int end, int worker) {
      failure.guard([&] {
        auto& [rows, size] = buffers[static_cast<std::size_t>(worker)];
        if (size < room) {
          rows = aligned<std::byte>(room);
          size = room;  // not before: after a failure the worker goes on with its other ranges
        }
        for (int unit = begin; unit < end; unit += together) {
          const int from = unit * kernels.unit;
          const int to = std::min((unit + together < end ? unit + together : end) * kernels.unit, source.outputs);
          source.read(from, to - from, rows.get());
          kernels.pack({rows.get(), source.format, to - from, source.inputs}, first + from, packed);
        }
      });
    });
    failure.rethrow();
    first += source.outputs;
  }
}

PackedMatrix::PackedMatrix(const Kernels& kernels, std::span<const MatrixView> parts)
    : PackedMatrix(kernels, sources_of(parts)) {}

void PackedMatrix::unpack_row(const Kernels& kernels, int output, float* row) const noexcept {
  const Part* part = parts_.data();
  while (output >= part->first + part->view.outputs) ++part;
  kernels.unpack_row(part->view, output - part->first, row);
}

void PackedActivations::reserve(const Kernels& kernels, const PackedMatrix& w, int rows) {
  kernels_ = &kernels;
  rows_ = rows;
  inputs_ = w.inputs();
  for (std::size_t i = 0; i < activation_formats; ++i) {
    wanted_[i] = w.wants(static_cast<ActivationFormat>(i));
    if (!wanted_[i]) continue;
    const std::size_t bytes = kernels.activation_bytes(static_cast<ActivationFormat>(i), rows, inputs_);
    if (bytes <= bytes_[i]) continue;
    data_[i] = aligned<std::byte>(bytes);
    bytes_[i] = bytes;
  }
}

void PackedActivations::pack_activations(const float* x, std::ptrdiff_t x_stride, int begin, int end) noexcept {
  for (std::size_t i = 0; i < activation_formats; ++i) {
    if (!wanted_[i]) continue;
    kernels_->pack_activations(static_cast<ActivationFormat>(i), x, x_stride, rows_, inputs_, begin, end, data_[i].get());
  }
}

void pack_activations(const Kernels& kernels, const PackedMatrix& w, const float* x, std::ptrdiff_t x_stride, int rows,
             PackedActivations& to) {
  to.reserve(kernels, w, rows);
  for_inputs(w.inputs(), preparing_work(rows, w.inputs()),
             [&](int begin, int end) { to.pack_activations(x, x_stride, begin, end); });
}

void matmul(const Kernels& kernels, const PackedMatrix& w, const PackedActivations& x, float* y, std::ptrdiff_t y_stride) {
  multiply(kernels, w, 0, x, y, y_stride, [](int, int) {});
}

void matmul_from(const Kernels& kernels, const PackedMatrix& w, int first, const PackedActivations& x, float* y,
                 std::ptrdiff_t y_stride) {
  multiply(kernels, w, first, x, y, y_stride, [](int, int) {});
}

bool matmul_of_numbers(const Kernels& kernels, const PackedMatrix& w, const PackedActivations& x, float* y,
                       std::ptrdiff_t y_stride) {
  std::atomic<bool> found{false};
  multiply(kernels, w, 0, x, y, y_stride, [&](int begin, int end) {  // while they are in the cache
    bool odd = false;
    for (int r = 0; r < x.rows(); ++r) {
      const float* const row = y + r * y_stride;
      for (int n = begin; n < end; ++n) odd |= row[n] != row[n];
    }
    if (odd) found.store(true, std::memory_order_relaxed);
  });
  return !found;
}

void AttentionScratch::reserve(const AttentionShape& shape, int rows, int positions) {
  const int queries = std::min(rows * (shape.heads / shape.kv_heads), attention_queries_max);
  const std::size_t line = 64 / sizeof(float);
  workers_ = threads();
  each_ = (attention_floats(shape, queries, positions) + line - 1) / line * line;
  const std::size_t size = each_ * static_cast<std::size_t>(workers_);
  if (size <= size_) return;
  data_ = aligned<float>(size);
  size_ = size;
}

void attention(const Kernels& kernels, const AttentionShape& shape, const KeyValues& kv, const float* q,
               std::ptrdiff_t q_stride, const Visible* visible, int rows, const AttentionScratch& scratch, float* out) {
  double work = 0;
  for (int r = 0; r < rows; ++r) work += 2.0 * (visible[r].end - visible[r].first) * shape.heads * shape.head_dim;
  const int queries = rows * (shape.heads / shape.kv_heads);
  const int tasks = tasks_per_head(shape, rows);
  // A kv head's tasks follow each other, so that its keys and values stay in the cache of one core.
  parallel_ranges(shape.kv_heads * tasks, work, scratch.workers(), [&](int begin, int end, int worker) {
    for (int task = begin; task < end; ++task) {
      const auto cut = [&](int part) { return static_cast<int>(static_cast<long long>(part) * queries / tasks); };
      kernels.attention(shape, kv, q, q_stride, visible, task / tasks, cut(task % tasks), cut(task % tasks + 1),
                        scratch.of(worker), out);
    }
  });
}

void store(const KeyValues& kv, int position, int rows, const float* keys, const float* values,
           std::ptrdiff_t stride) {
  const double work = 8.0 * rows * kv.kv_heads * kv.head_dim;
  parallel_ranges(kv.kv_heads, work, kv.kv_heads, [&](int begin, int end, int) {
    store_positions(kv, position, rows, keys, values, stride, begin, end);
  });
}

}  // namespace draftproof
