// SPDX-License-Identifier: MIT
#include "kernels/operations.h"

#include <algorithm>
#include <atomic>

#include "kernels/ranks.h"
#include "kernels/threads.h"

namespace draftproof {
namespace {

/// The number of tasks that the queries of one KV head are cut into: few, because each reads all keys and values, but
/// enough for every thread when there are more threads than KV heads.
int tasks_per_head(const AttentionShape& shape, int rows) {
  const int queries = rows * (shape.heads / shape.kv_heads);
  const int min = (queries + attention_queries_max - 1) / attention_queries_max;
  return std::max(min, std::min(threads() / shape.kv_heads, queries));
}

/// The most queries of one task.
int queries_of(const AttentionShape& shape, int rows) noexcept {
  return std::min(rows * (shape.heads / shape.kv_heads), attention_queries_max);
}

int units_of(const Kernels& kernels, const PackedMatrix::Part& part) {
  return (part.view.outputs + kernels.unit - 1) / kernels.unit;
}

/// The fewest units that a thread takes at a time: several are multiplied together.
constexpr int units_together = 4;

/// matmul_from that calls after(begin, end) when these outputs are complete in all rows, on the thread that computed
/// them.
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
  parallel_ranges(
      total, work, total,
      [&](int begin, int end, int) {
        int before = 0;
        for (const PackedMatrix::Part& part : w.parts()) {
          const int skipped = skipped_of(part);
          const int units = units_of(kernels, part) - skipped;
          const int from = (skipped + std::max(begin - before, 0)) * kernels.unit;
          const int to = std::min((skipped + std::min(end - before, units)) * kernels.unit, part.view.outputs);
          before += units;
          if (from >= to) continue;
          kernels.matmul(part.view, x.of(kernels.activation_format(part.view.format)), x.rows(), y + part.first,
                         y_stride, from, to);
          after(part.first + from, part.first + to);
        }
      },
      units_together);
}

/// Gets the outputs of other ranks.
void complete(const PackedMatrix& w, int rows, float* y, std::ptrdiff_t y_stride) {
  if (w.ranks() != nullptr) w.ranks()->exchange(y, sizeof(float), rows, y_stride, w.bounds());
}

/// unpack_rows of a matrix that is cut: each rank unpacks what it has, into a table in the order of ranks.
void unpack_rows_of_ranks(const Kernels& kernels, const PackedMatrix& w, std::span<const std::int32_t> outputs,
                          float* rows) {
  const auto width = static_cast<std::size_t>(w.inputs());
  std::vector<std::size_t> order;  // of rows, by the rank that has them
  std::vector<int> bounds = {0};
  for (int rank = 0; rank < w.ranks()->count(); ++rank) {
    const int* const held = w.bounds().data() + rank;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (held[0] <= outputs[i] && outputs[i] < held[1]) order.push_back(i);
    }
    bounds.push_back(static_cast<int>(order.size()));
  }
  std::vector<float> table(order.size() * width);
  const auto own = static_cast<std::size_t>(w.ranks()->rank());
  for (auto at = static_cast<std::size_t>(bounds[own]); at < static_cast<std::size_t>(bounds[own + 1]); ++at) {
    w.unpack_row(kernels, outputs[order[at]], table.data() + at * width);
  }
  w.ranks()->exchange(table.data(), width * sizeof(float), 1, bounds.back(), bounds);
  for (std::size_t at = 0; at < order.size(); ++at) {
    std::copy_n(table.data() + at * width, width, rows + order[at] * width);
  }
}

}  // namespace

void unpack_rows(const Kernels& kernels, const PackedMatrix& w, std::span<const std::int32_t> outputs, float* rows) {
  if (w.ranks() != nullptr) {
    unpack_rows_of_ranks(kernels, w, outputs, rows);
    return;
  }
  const std::ptrdiff_t width = w.inputs();
  const int count = static_cast<int>(outputs.size());
  for_rows(count, 16.0 * count * w.inputs(), [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      float* const row = rows + i * width;
      const auto at = static_cast<std::size_t>(i);
      if (i > begin && outputs[at] == outputs[at - 1]) {  // the masks of a draft's block
        std::copy_n(row - width, width, row);
      } else {
        w.unpack_row(kernels, outputs[at], row);
      }
    }
  });
}

void matmul(const Kernels& kernels, const PackedMatrix& w, const PackedActivations& x, float* y,
            std::ptrdiff_t y_stride) {
  multiply(kernels, w, 0, x, y, y_stride, [](int, int) {});
  complete(w, x.rows(), y, y_stride);
}

void matmul_from(const Kernels& kernels, const PackedMatrix& w, int first, const PackedActivations& x, float* y,
                 std::ptrdiff_t y_stride) {
  multiply(kernels, w, first, x, y, y_stride, [](int, int) {});
  complete(w, x.rows(), y, y_stride);
}

bool matmul_of_numbers(const Kernels& kernels, const PackedMatrix& w, const PackedActivations& x, float* y,
                       std::ptrdiff_t y_stride) {
  std::atomic<bool> found{false};
  const auto look = [&](int begin, int end) {  // while they are in the cache
    std::int32_t odd = 0;                      // of the width of a float, so that compilers vectorize the loop
    for (int r = 0; r < x.rows(); ++r) {
      const float* const row = y + r * y_stride;
      for (int n = begin; n < end; ++n) odd |= row[n] != row[n];
    }
    if (odd != 0) found.store(true, std::memory_order_relaxed);
  };
  multiply(kernels, w, 0, x, y, y_stride, look);
  if (w.ranks() != nullptr) {
    complete(w, x.rows(), y, y_stride);
    look(0, w.outputs());
  }
  return !found;
}

std::size_t AttentionScratch::bytes(const AttentionShape& shape, int rows) noexcept {
  return sizeof(float) * static_cast<std::size_t>(threads()) * attention_floats(shape, queries_of(shape, rows), 0);
}

std::size_t AttentionScratch::bytes_per_position(const AttentionShape& shape, int rows) noexcept {
  return sizeof(float) * static_cast<std::size_t>(threads()) * static_cast<std::size_t>(queries_of(shape, rows));
}

void AttentionScratch::reserve(const AttentionShape& shape, int rows, int positions) {
  const int queries = queries_of(shape, rows);
  const std::size_t line = 64 / sizeof(float);
  workers_ = threads();
  each_ = (attention_floats(shape, queries, positions) + line - 1) / line * line;
  const std::size_t size = each_ * static_cast<std::size_t>(workers_);
  if (size <= size_) return;
  data_ = aligned<float>(size);
  size_ = size;
}

void attention(const Kernels& kernels, const AttentionShape& shape, std::span<const AttentionJob> jobs,
               std::ptrdiff_t q_stride, const AttentionScratch& scratch) {
  double work = 0;
  int total = 0;
  for (const AttentionJob& job : jobs) {
    for (const Visible& row : std::span(job.visible, static_cast<std::size_t>(job.rows))) {
      work += 2.0 * (row.end - row.first) * shape.heads * shape.head_dim;
    }
    total += shape.kv_heads * tasks_per_head(shape, job.rows);
  }
  // A KV head's tasks follow each other, so that its keys and values stay in the cache of one core.
  parallel_ranges(total, work, scratch.workers(), [&](int begin, int end, int worker) {
    int before = 0;
    for (const AttentionJob& job : jobs) {
      const int tasks = tasks_per_head(shape, job.rows);
      const int queries = job.rows * (shape.heads / shape.kv_heads);
      const auto cut = [&](int part) { return static_cast<int>(static_cast<long long>(part) * queries / tasks); };
      const int last = std::min(end - before, shape.kv_heads * tasks);
      for (int task = std::max(begin - before, 0); task < last; ++task) {
        kernels.attention(shape, *job.kv, job.q, q_stride, job.visible, task / tasks, cut(task % tasks),
                          cut(task % tasks + 1), scratch.of(worker), job.out);
      }
      before += shape.kv_heads * tasks;
    }
  });
}

void causal_conv_silu(const Kernels& kernels, const float* tail, const float* x, std::ptrdiff_t x_stride, int rows,
                      int channels, int width, const float* weight, int begin, int end, float* out,
                      std::ptrdiff_t out_stride) {
  const int blocks = (end - begin + lanes - 1) / lanes;
  const double work = static_cast<double>(rows) * (end - begin) * (width + 20);  // an exponential costs about 20
  parallel_ranges(blocks, work, blocks, [&](int first, int last, int) {
    kernels.causal_conv_silu(tail, x, x_stride, rows, channels, width, weight, begin + first * lanes,
                             std::min(begin + last * lanes, end), out, out_stride);
  });
}

void gated_delta_rule(const Kernels& kernels, const DeltaShape& shape, const DeltaRows& folded, const float* q,
                      std::ptrdiff_t q_stride, int rows, const float* from, float* to, float* out) {
  const double work = 4.0 * rows * static_cast<double>(delta_state_floats(shape));
  parallel_ranges(shape.value_heads, work, shape.value_heads, [&](int begin, int end, int) {
    kernels.gated_delta_rule(shape, folded, q, q_stride, rows, begin, end, from, to, out);
  });
}

void store(std::span<const StoreJob> jobs, std::ptrdiff_t stride) {
  if (jobs.empty()) return;
  const int heads = jobs[0].kv->kv_heads;
  double work = 0;
  for (const StoreJob& job : jobs) work += 64.0 * job.rows * heads * job.kv->head_dim;
  const int total = static_cast<int>(jobs.size()) * heads;
  parallel_ranges(
      total, work, total,
      [&](int begin, int end, int) {
        for (int at = begin; at < end;) {
          const StoreJob& job = jobs[at / heads];
          const int first = at % heads;
          const int last = std::min(heads, first + end - at);
          store_positions(*job.kv, job.position, job.rows, job.keys, job.values, stride, first, last);
          at += last - first;
        }
      },
      std::max(total / threads(), 1));
}

}  // namespace draftproof
