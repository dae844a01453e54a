// SPDX-License-Identifier: MIT
#include "ref/models/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/math64.h"

namespace draftproof {
namespace {

constexpr int experts_max = 1 << 16;

/// Two spellings are published; a file that has both must mean the same.
int read_count(const Json& config) {
  const auto local = config.find("num_local_experts");
  const Json found = local ? *local : config.at("num_experts");
  const auto count = static_cast<int>(found.integer(1, experts_max));
  const auto other = config.find("num_experts");
  if (other && other->integer(1, experts_max) != count) other->fail("differs from num_local_experts");
  return count;
}

MlpWeights load_expert(const WeightLoader& from, int hidden, const Experts& layer, const std::string& prefix,
                       const ExpertNames& names, int id) {
  const int inner = layer.intermediate;
  const std::string own = prefix + std::to_string(id) + ".";
  MlpWeights weights;
  const std::string gate = own + names.gate + ".weight";
  if (from.weights.has(gate)) {
    weights.gate_up = load_matrix(from, {{gate, inner}, {own + names.up + ".weight", inner}}, hidden);
    weights.down = load_matrix(from, {{own + names.down + ".weight", hidden}}, inner);
    return weights;
  }

  /// Rows of this expert in a tensor [count][rows][inputs] of all.
  const auto part = [&](const std::string& name, int rows, int inputs) {
    return NamedMatrix{prefix + name, rows, id * rows, {layer.count, rows, inputs}};
  };
  if (const std::string joined = names.joined; from.weights.has(prefix + joined)) {
    weights.gate_up = load_matrix(from, {part(joined, 2 * inner, hidden)}, hidden);
  } else {
    weights.gate_up =
        load_matrix(from, {part("gate_proj.weight", inner, hidden), part("up_proj.weight", inner, hidden)}, hidden);
  }
  const std::string bare = names.down;
  const std::string down = from.weights.has(prefix + bare) ? bare : "down_proj.weight";
  weights.down = load_matrix(from, {part(down, hidden, inner)}, inner);
  return weights;
}

/// projected += sigmoid(gate . normed) * shared(normed)
void add_shared_expert(const TransformerPass& pass, const ExpertsWeights& weights, ExpertsScratch& scratch) {
  const int hidden = pass.config.hidden;
  TransformerScratch& s = pass.scratch;
  pack_activations(pass.kernels, weights.shared_gate, s.normed.data(), hidden, pass.rows, s.activations);
  matmul(pass.kernels, weights.shared_gate, s.activations, scratch.logits.data(), 1);
  pass.mlp(weights.shared, s.normed.data(), pass.rows, scratch.out.data());
  for_rows(pass.rows, 2.0 * pass.rows * hidden, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const auto gate = static_cast<float>(1 / (1 + exp64(-double{scratch.logits[static_cast<std::size_t>(row)]})));
      const float* const out = scratch.out.data() + std::ptrdiff_t{row} * hidden;
      float* const y = s.projected.data() + std::ptrdiff_t{row} * hidden;
      for (int d = 0; d < hidden; ++d) y[d] += gate * out[d];
    }
  });
}

}  // namespace

Experts read_experts(const Json& config, std::string_view intermediate) {
  Experts experts;
  experts.count = read_count(config);
  experts.chosen = static_cast<int>(config.at("num_experts_per_tok").integer(1, experts.count));
  experts.intermediate = positive(config, intermediate);
  return experts;
}

bool read_norm_topk_prob(const Json& config) {
  const auto normalized = config.find("norm_topk_prob");
  return normalized && normalized->boolean();
}

void put_sparse_experts(const Json& config, const Experts& experts, TransformerConfig& to) {
  const auto step = config.find("decoder_sparse_step");
  const std::int64_t every = step ? step->integer(1, to.depth()) : 1;
  const auto dense = config.find("mlp_only_layers");
  std::vector<std::int64_t> only;
  if (dense) only = dense->integers(0, to.depth() - 1);
  for (int i = 0; i < to.depth(); ++i) {
    LayerConfig& layer = to.layers[static_cast<std::size_t>(i)];
    if ((i + 1) % every != 0 || std::ranges::find(only, i) != only.end()) continue;
    layer.experts = experts;
    layer.intermediate = 0;
  }
}

ExpertsWeights load_experts(const WeightLoader& from, int hidden, const Experts& layer, const std::string& prefix,
                            const ExpertNames& names) {
  ExpertsWeights weights;
  weights.router = load_matrix(from, {{prefix + names.router, layer.count}}, hidden);
  for (int id = 0; id < layer.count; ++id) {
    weights.experts.push_back(load_expert(from, hidden, layer, prefix + names.experts, names, id));
  }
  if (layer.shared > 0) {
    weights.shared = load_mlp(from, hidden, layer.shared, false, prefix + "shared_expert.");
    weights.shared_gate = load_matrix(from, {{prefix + "shared_expert_gate.weight", 1}}, hidden);
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
    const double max = *std::max_element(of, of + layer.count);
    double total = 0;
    for (std::size_t e = 0; e < p.size(); ++e) {
      ids[e] = static_cast<int>(e);
      p[e] = exp64(of[e] - max);
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

Choices route(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights, ExpertsScratch& scratch,
              std::span<const float> scales) {
  TransformerScratch& s = pass.scratch;
  reserve_rows(scratch.logits, pass.rows, layer.count);
  pack_activations(pass.kernels, weights.router, s.normed.data(), pass.config.hidden, pass.rows, s.activations);
  matmul(pass.kernels, weights.router, s.activations, scratch.logits.data(), layer.count);
  return choose_experts(scratch.logits.data(), pass.rows, layer, scales);
}

void mix_experts(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
                 const Choices& choices, ExpertsScratch& scratch) {
  const int hidden = pass.config.hidden;
  const auto width = static_cast<std::size_t>(hidden);
  TransformerScratch& s = pass.scratch;
  reserve_rows(scratch.gathered, pass.rows, hidden);
  reserve_rows(scratch.out, pass.rows, hidden);
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
  if (layer.shared > 0) add_shared_expert(pass, weights, scratch);
}

void mix_experts(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
                 ExpertsScratch& scratch) {
  mix_experts(pass, layer, weights, route(pass, layer, weights, scratch), scratch);
}

}  // namespace draftproof
