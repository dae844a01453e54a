// SPDX-License-Identifier: MIT
#include "ref/models/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/math64.h"

namespace draftproof {
namespace {

MlpWeights load_expert(const WeightLoader& from, int hidden, const Experts& layer, const std::string& prefix, int id) {
  const int inner = layer.intermediate;
  const std::string own = prefix + std::to_string(id) + ".";
  if (from.weights.has(own + "gate_proj.weight")) return load_mlp(from, hidden, inner, false, own);

  /// Rows of this expert in a tensor [count][rows][inputs] of all.
  const auto part = [&](const std::string& name, int rows, int inputs) {
    return NamedMatrix{prefix + name, rows, id * rows, {layer.count, rows, inputs}};
  };
  const auto stored = [&](const std::string& name) {
    return from.weights.has(prefix + name) ? name : name + ".weight";
  };
  const std::string joined = stored("gate_up_proj");
  MlpWeights weights;
  if (from.weights.has(prefix + joined)) {
    weights.gate_up = load_matrix(from, {part(joined, 2 * inner, hidden)}, hidden);
  } else {
    weights.gate_up =
        load_matrix(from, {part("gate_proj.weight", inner, hidden), part("up_proj.weight", inner, hidden)}, hidden);
  }
  weights.down = load_matrix(from, {part(stored("down_proj"), hidden, inner)}, inner);
  return weights;
}

void sized(std::vector<float>& buffer, int rows, int width) {
  const std::size_t size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

ExpertsWeights load_experts(const WeightLoader& from, int hidden, const Experts& layer, const std::string& prefix,
                            const std::string& router) {
  ExpertsWeights weights;
  weights.router = load_matrix(from, {{prefix + router, layer.count}}, hidden);
  for (int id = 0; id < layer.count; ++id) {
    weights.experts.push_back(load_expert(from, hidden, layer, prefix + "experts.", id));
  }
  return weights;
}

Choices choose_experts(const float* logits, int rows, const Experts& layer, std::span<const float> scales) {
  const auto chosen = static_cast<std::size_t>(layer.chosen);
  Choices choices;
  choices.experts.reserve(chosen * static_cast<std::size_t>(rows));
  choices.weights.reserve(choices.experts.capacity());
  std::vector<double> p(static_cast<std::size_t>(layer.count));
  std::vector<int> ids(p.size());
  for (int row = 0; row < rows; ++row) {
    const float* const of = logits + static_cast<std::ptrdiff_t>(row) * layer.count;
    const double most = *std::max_element(of, of + layer.count);
    double total = 0;
    for (std::size_t e = 0; e < p.size(); ++e) {
      ids[e] = static_cast<int>(e);
      p[e] = exp64(of[e] - most);
      total += p[e];
    }
    // One by one, because NaN has no order that a sort could rely on.
    for (std::size_t first = 0; first < chosen; ++first) {
      std::size_t best = first;
      for (std::size_t other = first + 1; other < ids.size(); ++other) {
        const float a = of[ids[other]];
        const float b = of[ids[best]];
        if (a > b || (a == b && ids[other] < ids[best])) best = other;
      }
      std::swap(ids[first], ids[best]);
    }
    std::sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(chosen));
    double sum = total;
    if (layer.normalized && !std::isnan(total)) {
      sum = 0;
      for (std::size_t k = 0; k < chosen; ++k) sum += p[static_cast<std::size_t>(ids[k])];
    }
    for (std::size_t k = 0; k < chosen; ++k) {
      const auto id = static_cast<std::size_t>(ids[k]);
      choices.experts.push_back(ids[k]);
      choices.weights.push_back(static_cast<float>(p[id] / sum * (scales.empty() ? 1 : scales[id])));
    }
  }
  return choices;
}

std::size_t ExpertsScratch::bytes_per_row(const Experts& layer, int hidden) noexcept {
  return sizeof(float) * static_cast<std::size_t>(layer.count + 2 * hidden + 2 * layer.chosen + 1);
}

Choices route(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
              ExpertsScratch& scratch, std::span<const float> scales) {
  TransformerScratch& s = pass.scratch;
  sized(scratch.logits, pass.rows, layer.count);
  pack_activations(pass.kernels, weights.router, s.normed.data(), pass.config.hidden, pass.rows, s.activations);
  matmul(pass.kernels, weights.router, s.activations, scratch.logits.data(), layer.count);
  return choose_experts(scratch.logits.data(), pass.rows, layer, scales);
}

void mix_experts(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
                 const Choices& choices, ExpertsScratch& scratch) {
  const int hidden = pass.config.hidden;
  const auto width = static_cast<std::size_t>(hidden);
  TransformerScratch& s = pass.scratch;
  sized(scratch.gathered, pass.rows, hidden);
  sized(scratch.out, pass.rows, hidden);
  std::fill_n(s.projected.begin(), static_cast<std::ptrdiff_t>(pass.rows) * hidden, 0.0F);
  for (int id = 0; id < layer.count; ++id) {
    scratch.rows.clear();  // of `choices`
    for (std::size_t at = 0; at < choices.experts.size(); ++at) {
      if (choices.experts[at] == id) scratch.rows.push_back(static_cast<int>(at));
    }
    if (scratch.rows.empty()) continue;
    const auto row_of = [&](std::size_t i) { return static_cast<std::size_t>(scratch.rows[i] / layer.chosen); };
    for (std::size_t i = 0; i < scratch.rows.size(); ++i) {
      std::memcpy(scratch.gathered.data() + i * width, s.normed.data() + row_of(i) * width, width * sizeof(float));
    }
    const int count = static_cast<int>(scratch.rows.size());
    pass.mlp(weights.experts[static_cast<std::size_t>(id)], scratch.gathered.data(), count, scratch.out.data());
    for_rows(count, 2.0 * count * hidden, [&](int begin, int end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        const float weight = choices.weights[static_cast<std::size_t>(scratch.rows[i])];
        const float* const out = scratch.out.data() + i * width;
        float* const y = s.projected.data() + row_of(i) * width;
        for (std::size_t d = 0; d < width; ++d) y[d] += weight * out[d];
      }
    });
  }
}

}  // namespace draftproof
