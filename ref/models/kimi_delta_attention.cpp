// SPDX-License-Identifier: MIT
#include "ref/models/kimi_delta_attention.h"

#include <algorithm>
#include <array>

#include "kernels/math64.h"
#include "kernels/threads.h"
#include "ref/models/softplus.h"

namespace draftproof {
namespace {

constexpr int lot = 128;  // of key dimensions that are computed together

/// Of the first of these shapes that the tensor has, or else of the last one.
std::vector<float> floats_of(const WeightLoader& from, const std::string& name,
                             std::initializer_list<std::vector<std::int64_t>> shapes) {
  for (const std::vector<std::int64_t>& shape : shapes) {
    if (from.weights.has(name, shape)) return from.floats(name, shape);
  }
  return from.floats(name, *(shapes.end() - 1));
}

}  // namespace

KimiDeltaWeights load_kimi_delta(const WeightLoader& from, int hidden, const RecurrentShape& shape,
                                 const std::string& prefix) {
  const int heads = shape.delta.value_heads;
  const int keys = shape.key_floats();
  const int rank = shape.delta.key_dim;
  const int taps = shape.conv_width;
  KimiDeltaWeights weights;
  weights.in = load_matrix(from,
                           {{prefix + "q_proj.weight", keys},
                            {prefix + "k_proj.weight", keys},
                            {prefix + "v_proj.weight", keys},
                            {prefix + "f_a_proj.weight", rank},
                            {prefix + "g_a_proj.weight", rank},
                            {prefix + "b_proj.weight", heads}},
                           hidden);
  weights.forget = load_matrix(from, {{prefix + "f_b_proj.weight", keys}}, rank);
  weights.gate = load_matrix(from, {{prefix + "g_b_proj.weight", keys}}, rank);
  weights.out = load_matrix(from, {{prefix + "o_proj.weight", hidden}}, keys);
  std::vector<float> stored;  // [channels][taps]
  for (const char* part : {"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"}) {
    const std::vector<float> more = floats_of(from, prefix + part, {{keys, taps}, {1, keys, 1, taps}, {keys, 1, taps}});
    stored.insert(stored.end(), more.begin(), more.end());
  }
  weights.convolution = taps_by_row(stored, taps);
  const std::vector<float> a_log = floats_of(from, prefix + "A_log", {{heads}, {heads, 1}, {1, 1, heads, 1}});
  const bool gguf = from.weights.metadata() != nullptr;
  weights.rates = rates_of(gguf ? std::vector<float>() : a_log);
  for (const float rate : gguf ? a_log : std::vector<float>()) weights.rates.push_back(-double{rate});
  weights.dt_bias = from.floats(prefix + "dt_bias", {keys});
  weights.norm = from.floats(prefix + "o_norm.weight", {shape.delta.value_dim});
  return weights;
}

std::size_t KimiDeltaScratch::bytes_per_row(const RecurrentShape& shape) noexcept {
  const int projected = shape.channels() + 2 * shape.delta.key_dim + shape.delta.value_heads;
  return sizeof(float) * static_cast<std::size_t>(projected + 2 * shape.key_floats() + 2 * shape.value_floats());
}

void kimi_delta_attention(const TransformerPass& pass, int i, const KimiDeltaWeights& weights,
                          KimiDeltaScratch& scratch) {
  const auto& shape = std::get<RecurrentShape>(pass.config.layers[static_cast<std::size_t>(i)].mixer);
  const Kernels& kernels = pass.kernels;
  TransformerScratch& s = pass.scratch;
  const int rows = pass.rows;
  const int heads = shape.delta.value_heads;
  const int rank = shape.delta.key_dim;
  const int keys = shape.key_floats();
  const int values = shape.value_floats();
  const int width = weights.in.outputs();
  scratch.caches.clear();
  for (Cache* const cache : s.caches) scratch.caches.push_back(&cache->layer<RecurrentCache>(i));
  reserve_rows(scratch.projected, rows, width);
  reserve_rows(scratch.decays, rows, keys);
  reserve_rows(scratch.gates, rows, values);
  reserve_rows(scratch.q, rows, keys);
  reserve_rows(scratch.attended, rows, values);

  const auto multiply = [&](const PackedMatrix& matrix, const float* x, std::ptrdiff_t stride, float* y) {
    pack_activations(kernels, matrix, x, stride, rows, s.activations);
    matmul(kernels, matrix, s.activations, y, matrix.outputs());
  };
  const float* const projected = scratch.projected.data();
  multiply(weights.in, s.normed.data(), pass.config.hidden, scratch.projected.data());
  multiply(weights.forget, projected + shape.channels(), width, scratch.decays.data());
  multiply(weights.gate, projected + shape.channels() + rank, width, scratch.gates.data());
  for_rows(rows * heads, 20.0 * rows * keys, [&](int begin, int end) {
    std::array<double, lot> sums;
    for (std::ptrdiff_t head = begin; head < end; ++head) {
      float* const of_head = scratch.decays.data() + head * rank;
      const std::ptrdiff_t h = head % heads;
      const float* const bias = weights.dt_bias.data() + h * rank;
      for (int first = 0; first < rank; first += lot) {
        const auto count = static_cast<std::size_t>(std::min(lot, rank - first));
        const float* const from = of_head + first;
        const float* const of_lot = bias + first;
        for (std::size_t k = 0; k < count; ++k) sums[k] = double{from[k]} + double{of_lot[k]};
        softplus(sums.data(), count, -weights.rates[static_cast<std::size_t>(h)], of_head + first);
      }
    }
  });
  const auto store_gates = [&](int row, float* decays, float* betas) {
    std::copy_n(scratch.decays.data() + std::ptrdiff_t{row} * keys, keys, decays);
    const float* const b = projected + std::ptrdiff_t{row} * width + shape.channels() + 2 * rank;
    for (int h = 0; h < heads; ++h) betas[h] = static_cast<float>(1 / (1 + exp64(-double{b[h]})));
  };
  fold_rows(kernels, shape, weights.convolution, {projected, width, store_gates}, s.ranges, scratch.caches,
            scratch.q.data(), scratch.attended.data());
  for_rows(rows, 20.0 * rows * values, [&](int begin, int end) {
    float* const attended = scratch.attended.data() + std::ptrdiff_t{begin} * values;
    float* const gates = scratch.gates.data() + std::ptrdiff_t{begin} * values;
    const auto count = static_cast<std::size_t>(end - begin) * static_cast<std::size_t>(values);
    kernels.rms_norm(attended, values, end - begin, heads, shape.delta.value_dim, weights.norm.data(),
                     pass.config.epsilon, attended, values);
    kernels.exponentials(gates, 0, -1, count, gates);
    for (std::size_t k = 0; k < count; ++k) attended[k] /= 1 + gates[k];
  });
  multiply(weights.out, scratch.attended.data(), values, s.projected.data());
}

}  // namespace draftproof
