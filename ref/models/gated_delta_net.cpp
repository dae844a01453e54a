// SPDX-License-Identifier: MIT
#include "ref/models/gated_delta_net.h"

#include <algorithm>
#include <cmath>

#include "kernels/math64.h"
#include "kernels/threads.h"
#include "ref/models/softplus.h"

namespace draftproof {
namespace {

constexpr float key_epsilon = 1e-6F;  // of the norms of q and k

/// Divides the heads of x by their lengths, times `factor`.
void normalize(const Kernels& kernels, const DeltaShape& delta, float* x, std::ptrdiff_t stride, int rows,
               float factor) {
  const auto dims = static_cast<float>(delta.key_dim);
  const std::vector<float> weight(static_cast<std::size_t>(delta.key_dim), factor / std::sqrt(dims));
  kernels.rms_norm(x, stride, rows, delta.key_heads, delta.key_dim, weight.data(), key_epsilon / dims, x, stride);
}

}  // namespace

std::vector<double> rates_of(std::span<const float> a_log) {
  std::vector<double> rates;
  for (const float logarithm : a_log) rates.push_back(exp64(logarithm));
  return rates;
}

std::size_t GatedDeltaNetScratch::bytes_per_row(const RecurrentShape& shape) noexcept {
  const int projected = shape.channels() + shape.value_floats() + 2 * shape.delta.value_heads;
  return sizeof(float) * static_cast<std::size_t>(projected + shape.key_floats() + 4 * shape.value_floats());
}

std::unique_ptr<RecurrentCache> new_gated_delta_net_cache(const Kernels& kernels, const RecurrentShape& shape,
                                                          int max_pending_rows) {
  const auto replay = [&kernels](const DeltaShape& delta, const DeltaRows& rows, int count, const float* from,
                                 float* to) {
    gated_delta_rule(kernels, delta, rows, nullptr, 0, count, from, to, nullptr);
  };
  return std::make_unique<RecurrentCache>(shape, max_pending_rows, replay);
}

void fold_rows(const Kernels& kernels, const RecurrentShape& shape, const std::vector<float>& convolution,
               const ProjectedRows& rows, std::span<const RowRange> ranges, std::span<RecurrentCache* const> caches,
               float* q, float* attended) {
  const int keys = shape.key_floats();
  const int channels = shape.channels();
  for (const RowRange& range : ranges) {
    RecurrentCache& cache = *caches[static_cast<std::size_t>(range.segment)];
    cache.branch(range.position);
    const RecurrentCache::Rows pending = cache.claim_rows(range.position, range.rows);
    const auto at = [&](float* first, int row) { return first + row * pending.stride; };
    for (int i = 0; i < range.rows; ++i) {
      std::copy_n(rows.first + (range.row + i) * rows.stride, channels, at(pending.inputs, i));
      rows.store_gates(range.row + i, at(pending.decays, i), at(pending.betas, i));
    }
    const auto convolve = [&](int begin, int end, float* to, std::ptrdiff_t stride) {
      causal_conv_silu(kernels, pending.tail + begin, pending.inputs + begin, pending.stride, range.rows, channels,
                       shape.conv_width, convolution.data() + begin, 0, end - begin, to, stride);
    };
    convolve(0, keys, q, keys);
    convolve(keys, channels, pending.keys, pending.stride);  // values follow the keys
    normalize(kernels, shape.delta, q, keys, range.rows, 1 / std::sqrt(static_cast<float>(shape.delta.key_dim)));
    normalize(kernels, shape.delta, pending.keys, pending.stride, range.rows, 1);
    gated_delta_rule(kernels, shape.delta, pending.folded(), q, keys, range.rows, pending.from, pending.to,
                     attended + std::ptrdiff_t{range.row} * shape.value_floats());
  }
}

void gated_delta_net(const Kernels& kernels, const RecurrentShape& shape, const GatedDeltaNetWeights& weights,
                     float epsilon, const float* n, int rows, std::span<const RowRange> ranges,
                     GatedDeltaNetScratch& scratch, std::span<RecurrentCache* const> caches, float* y) {
  const int values = shape.value_floats();
  const int width = weights.in.outputs();
  reserve_rows(scratch.projected, rows, width);
  reserve_rows(scratch.q, rows, shape.key_floats());
  reserve_rows(scratch.attended, rows, values);
  reserve_rows(scratch.gated, rows, 2 * values);
  reserve_rows(scratch.mixed, rows, values);

  pack_activations(kernels, weights.in, n, weights.in.inputs(), rows, scratch.activations);
  matmul(kernels, weights.in, scratch.activations, scratch.projected.data(), width);
  const auto projected = [&](int row) { return scratch.projected.data() + std::ptrdiff_t{row} * width; };
  const auto store_gates = [&](int row, float* decays, float* betas) {
    const float* const b = projected(row) + shape.channels() + values;
    const float* const a = b + shape.delta.value_heads;
    for (int h = 0; h < shape.delta.value_heads; ++h) {
      betas[h] = static_cast<float>(1 / (1 + exp64(-double{b[h]})));
      decays[h] = static_cast<float>(-weights.rates[h] * softplus(double{a[h]} + weights.dt_bias[h]));
    }
  };
  fold_rows(kernels, shape, weights.convolution, {scratch.projected.data(), width, store_gates}, ranges, caches,
            scratch.q.data(), scratch.attended.data());
  for_rows(rows, 20.0 * rows * values, [&](int begin, int end) {
    const std::ptrdiff_t stride = 2 * std::ptrdiff_t{values};
    float* const gated = scratch.gated.data() + begin * stride;
    for (int row = begin; row < end; ++row) {
      std::copy_n(projected(row) + shape.channels(), values, scratch.gated.data() + row * stride);
    }
    const DeltaShape& delta = shape.delta;
    kernels.rms_norm(scratch.attended.data() + std::ptrdiff_t{begin} * values, values, end - begin, delta.value_heads,
                     delta.value_dim, weights.norm.data(), epsilon, gated + values, stride);
    kernels.silu_multiply(gated, end - begin, values, 0, values, scratch.mixed.data() + std::ptrdiff_t{begin} * values);
  });
  pack_activations(kernels, weights.out, scratch.mixed.data(), values, rows, scratch.activations);
  matmul(kernels, weights.out, scratch.activations, y, weights.out.outputs());
}

}  // namespace draftproof
