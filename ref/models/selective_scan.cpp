// SPDX-License-Identifier: MIT
#include "ref/models/selective_scan.h"

#include <algorithm>
#include <array>
#include <span>
#include <variant>

#include "kernels/folds.h"
#include "kernels/math64.h"
#include "kernels/threads.h"
#include "ref/models/causal_convolution.h"
#include "ref/models/softplus.h"

namespace draftproof {
namespace {

constexpr int lot = 256;  // of channels that are computed together

/// S = S * exp(-rates * step) + key * value for channels [begin, end), row after row; with queries [rows][q_stride]
/// each row's out [rows][channels] = the product of its queries and S.
void fold(const Kernels& kernels, const SelectiveScanShape& shape, const float* rates, const SelectiveScanRows& rows,
          int count, std::ptrdiff_t begin, std::ptrdiff_t end, const float* from, float* to, const float* queries,
          std::ptrdiff_t q_stride, float* out) {
  const std::ptrdiff_t channels = shape.channels;
  const auto width = static_cast<std::size_t>(end - begin);
  std::array<float, lot> exponents;
  std::array<float, lot> decays;
  for (std::ptrdiff_t row = 0; row < count; ++row) {
    const float* const old = row == 0 ? from : to;
    const float* const steps = rows.steps + row * rows.stride;
    const float* const values = rows.values + row * rows.stride;
    float* const sums = out == nullptr ? nullptr : out + row * channels;
    if (sums != nullptr) std::fill(sums + begin, sums + end, 0.0F);
    for (std::ptrdiff_t n = 0; n < shape.state_size; ++n) {
      const std::ptrdiff_t at = n * channels;
      for (std::size_t i = 0; i < width; ++i) {
        const std::ptrdiff_t channel = begin + static_cast<std::ptrdiff_t>(i);
        exponents[i] = rates[at + channel] * steps[channel];
      }
      kernels.exponentials(exponents.data(), 0, -1, width, decays.data());
      const float query = sums == nullptr ? 0 : queries[row * q_stride + n];
      fold_channels(end - begin, decays.data(), rows.keys[row * rows.stride + n], values + begin, query,
                    old + at + begin, to + at + begin, sums == nullptr ? nullptr : sums + begin);
    }
  }
}

void scan(const Kernels& kernels, const SelectiveScanShape& shape, const float* rates, const SelectiveScanRows& rows,
          int count, const float* from, float* to, const float* queries, std::ptrdiff_t q_stride, float* out) {
  const int lots = (shape.channels + lot - 1) / lot;
  const double work = 24.0 * count * shape.channels * shape.state_size;
  parallel_ranges(lots, work, lots, [&](int begin, int end, int) {
    for (int i = begin; i < end; ++i) {
      fold(kernels, shape, rates, rows, count, i * lot, std::min((i + 1) * lot, shape.channels), from, to, queries,
           q_stride, out);
    }
  });
}

/// A pass through one layer.
struct SelectivePass {
  const TransformerPass& pass;
  const SelectiveScanShape& shape;
  const SelectiveScanWeights& weights;
  SelectiveScanScratch& scratch;

  int selected() const { return shape.step_rank + 2 * shape.state_size; }
  static float* row_of(std::vector<float>& buffer, int row, int each) {
    return buffer.data() + std::ptrdiff_t{row} * each;
  }
  const float* projected(int row) const { return row_of(scratch.projected, row, 2 * shape.channels); }

  /// convolved = SiLU of the convolution of row `row` of these pending rows, which is row `at` of the pass.
  void convolve(const SelectiveScanCache::Rows& pending, int row, int at) const {
    // The steps come later, and their room is free.
    convolve_row(pass.kernels, weights.convolution, weights.conv_bias, pending, row,
                 row_of(scratch.convolved, at, shape.channels), row_of(scratch.steps, at, shape.channels));
  }

  /// selected = t, B, C of rows [first, first + rows), normalized; steps = W_t t
  void select(int first, int rows) const {
    float* const rows_of = row_of(scratch.selected, first, selected());
    pack_activations(pass.kernels, weights.selection, row_of(scratch.convolved, first, shape.channels), shape.channels,
                     rows, scratch.activations);
    matmul(pass.kernels, weights.selection, scratch.activations, rows_of, selected());
    float* next = rows_of;
    for (const std::vector<float>* const norm : {&weights.step_norm, &weights.key_norm, &weights.query_norm}) {
      const int width = static_cast<int>(norm->size());
      pass.kernels.rms_norm(next, selected(), rows, 1, width, norm->data(), pass.config.epsilon, next, selected());
      next += width;
    }
    pack_activations(pass.kernels, weights.steps, rows_of, selected(), rows, scratch.activations);
    matmul(pass.kernels, weights.steps, scratch.activations, row_of(scratch.steps, first, shape.channels),
           shape.channels);
  }

  /// Stores what row `at` of the pass folds into the states at pending row `row`.
  void store(const SelectiveScanCache::Rows& pending, int row, int at) const {
    const std::ptrdiff_t to = row * pending.stride;
    std::copy_n(row_of(scratch.selected, at, selected()) + shape.step_rank, shape.state_size, pending.keys + to);
    const float* const t = row_of(scratch.steps, at, shape.channels);
    const float* const x = row_of(scratch.convolved, at, shape.channels);
    float* const steps = pending.steps + to;
    std::array<double, lot> sums;
    for (int first = 0; first < shape.channels; first += lot) {
      const int count = std::min(lot, shape.channels - first);
      for (int i = 0; i < count; ++i) {
        sums[static_cast<std::size_t>(i)] =
            double{t[first + i]} + double{weights.step_bias[static_cast<std::size_t>(first + i)]};
      }
      softplus(sums.data(), static_cast<std::size_t>(count), 1, steps + first);
    }
    for (int i = 0; i < shape.channels; ++i) pending.values[to + i] = steps[i] * x[i];
  }

  /// Begins a range: the inputs of its rows are stored and convolved.
  SelectiveScanCache::Rows begin_range(const RowRange& range) const {
    SelectiveScanCache& cache = *scratch.caches[static_cast<std::size_t>(range.segment)];
    cache.branch(range.position);
    const SelectiveScanCache::Rows pending = cache.claim_rows(weights.rates.data(), range.position, range.rows);
    for (int i = 0; i < range.rows; ++i) {
      std::copy_n(projected(range.row + i), shape.channels, pending.inputs + i * pending.stride);
    }
    for_rows(range.rows, (20.0 + shape.conv_width) * range.rows * shape.channels, [&](int begin, int end) {
      for (int i = begin; i < end; ++i) convolve(pending, i, range.row + i);
    });
    return pending;
  }

  /// Ends it, its rows selected.
  void end_range(const RowRange& range, const SelectiveScanCache::Rows& pending) const {
    for_rows(range.rows, 60.0 * range.rows * shape.channels, [&](int begin, int end) {
      for (int i = begin; i < end; ++i) store(pending, i, range.row + i);
    });
    const float* const queries = row_of(scratch.selected, range.row, selected()) + shape.step_rank + shape.state_size;
    scan(pass.kernels, shape, weights.rates.data(), pending.folded(), range.rows, pending.from, pending.to, queries,
         selected(), row_of(scratch.scanned, range.row, shape.channels));
  }

  /// Ranges of one turn are of different segments. Their rows are selected together where they follow each other: one
  /// pass over the weights for all sequences.
  void run(std::span<const RowRange> turn) const {
    scratch.pending.clear();
    for (const RowRange& range : turn) scratch.pending.push_back(begin_range(range));
    for (std::size_t i = 0; i < turn.size();) {
      const int first = turn[i].row;
      int end = first;
      for (; i < turn.size() && turn[i].row == end; ++i) end += turn[i].rows;
      select(first, end - first);
    }
    for (std::size_t i = 0; i < turn.size(); ++i) end_range(turn[i], scratch.pending[i]);
  }

  /// mixed = SiLU(z) * (scanned + D * x)
  void finish(int begin, int end) const {
    const int channels = shape.channels;
    for (int row = begin; row < end; ++row) {
      const float* const x = row_of(scratch.convolved, row, channels);
      const float* const scanned = row_of(scratch.scanned, row, channels);
      float* const gated = row_of(scratch.gated, row, 2 * channels);
      std::copy_n(projected(row) + channels, channels, gated);
      for (int i = 0; i < channels; ++i) {
        gated[channels + i] = scanned[i] + weights.skip[static_cast<std::size_t>(i)] * x[i];
      }
    }
    pass.kernels.silu_multiply(row_of(scratch.gated, begin, 2 * channels), end - begin, channels, 0, channels,
                               row_of(scratch.mixed, begin, channels));
  }
};

}  // namespace

SelectiveScanWeights load_selective_scan(const WeightLoader& from, int hidden, const SelectiveScanShape& shape,
                                         const std::string& prefix) {
  const int channels = shape.channels;
  const int states = shape.state_size;
  const bool gguf = from.weights.metadata() != nullptr;  // -exp(A_log)
  const auto matrix = [&](const char* name, int outputs, int inputs) {
    return load_matrix(from, {{prefix + name + ".weight", outputs}}, inputs);
  };
  SelectiveScanWeights weights;
  weights.in = matrix("in_proj", 2 * channels, hidden);
  weights.selection = matrix("x_proj", shape.step_rank + 2 * states, channels);
  weights.steps = matrix("dt_proj", channels, shape.step_rank);
  weights.out = matrix("out_proj", hidden, channels);
  weights.convolution = load_taps(from, prefix + "conv1d.weight", channels, shape.conv_width);
  weights.conv_bias = from.floats(prefix + "conv1d.bias", {channels});
  weights.step_bias = from.floats(prefix + "dt_proj.bias", {channels});
  weights.rates = taps_by_row(from.floats(prefix + "A_log", {channels, states}), states);
  for (float& rate : weights.rates) rate = gguf ? -rate : static_cast<float>(exp64(rate));
  weights.skip = from.floats(prefix + "D", {channels});
  weights.step_norm = from.floats(prefix + "dt_layernorm.weight", {shape.step_rank});
  weights.key_norm = from.floats(prefix + "b_layernorm.weight", {states});
  weights.query_norm = from.floats(prefix + "c_layernorm.weight", {states});
  return weights;
}

std::size_t SelectiveScanScratch::bytes_per_row(const SelectiveScanShape& shape) noexcept {
  return sizeof(float) * static_cast<std::size_t>(8 * shape.channels + shape.step_rank + 2 * shape.state_size);
}

std::unique_ptr<SelectiveScanCache> new_selective_scan_cache(const Kernels& kernels, const SelectiveScanShape& shape,
                                                             int max_pending_rows) {
  const auto replay = [&kernels, shape](const float* rates, const SelectiveScanRows& rows, int count, const float* from,
                                        float* to) {
    scan(kernels, shape, rates, rows, count, from, to, nullptr, 0, nullptr);
  };
  return std::make_unique<SelectiveScanCache>(shape, max_pending_rows, replay);
}

void selective_scan(const TransformerPass& pass, int layer, const SelectiveScanWeights& weights,
                    SelectiveScanScratch& scratch) {
  const auto& shape = std::get<SelectiveScanShape>(pass.config.layers[static_cast<std::size_t>(layer)].mixer);
  const SelectivePass layer_pass = {pass, shape, weights, scratch};
  const int place = pass.config.cache_of(layer);
  const int rows = pass.rows;
  const int channels = shape.channels;
  scratch.caches.clear();
  for (Cache* const cache : pass.scratch.caches) scratch.caches.push_back(&cache->layer<SelectiveScanCache>(place));
  reserve_rows(scratch.projected, rows, 2 * channels);
  reserve_rows(scratch.selected, rows, layer_pass.selected());
  reserve_rows(scratch.gated, rows, 2 * channels);
  for (std::vector<float>* const buffer : {&scratch.convolved, &scratch.steps, &scratch.scanned, &scratch.mixed}) {
    reserve_rows(*buffer, rows, channels);
  }

  pack_activations(pass.kernels, weights.in, pass.scratch.normed.data(), weights.in.inputs(), rows,
                   scratch.activations);
  matmul(pass.kernels, weights.in, scratch.activations, scratch.projected.data(), 2 * channels);
  const std::span<const RowRange> ranges = pass.scratch.ranges;
  for (std::size_t i = 0; i < ranges.size();) {
    const std::size_t first = i;
    while (i < ranges.size() && ranges[i].turn == ranges[first].turn) ++i;
    layer_pass.run(ranges.subspan(first, i - first));
  }
  for_rows(rows, 30.0 * rows * channels, [&](int begin, int end) { layer_pass.finish(begin, end); });
  pack_activations(pass.kernels, weights.out, scratch.mixed.data(), channels, rows, scratch.activations);
  matmul(pass.kernels, weights.out, scratch.activations, pass.scratch.projected.data(), weights.out.outputs());
}

}  // namespace draftproof
