// SPDX-License-Identifier: MIT
#include "ref/models/experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/math64.h"

namespace draftproof {
namespace {

constexpr int experts_max = 1 << 16;

double sigmoid(double x) { return 1 / (1 + exp64(-x)); }

/// Two spellings are published; a file that has both must mean the same.
int read_count(const Json& config) {
  const auto local = config.find("num_local_experts");
  const Json found = local ? *local : config.at("num_experts");
  const auto count = static_cast<int>(found.integer(1, experts_max));
  const auto other = config.find("num_experts");
  if (other && other->integer(1, experts_max) != count) other->fail("differs from num_local_experts");
  return count;
}

/// The biases of all experts, those of the gates and ups of one expert behind each other; empty where they are counted.
struct ExpertBiases {
  std::vector<float> gate_up, down;
};

ExpertBiases load_biases(const WeightLoader& from, int hidden, const Experts& layer, const std::string& prefix,
                         const ExpertNames& names) {
  const int inner = layer.intermediate;
  const std::string joined = prefix + names.joined + "_bias";
  if (from.weights.has(joined)) {
    const std::vector<float> stored = from.floats(joined, {layer.count, 2 * inner});
    std::vector<float> separate(stored.size());
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const std::size_t width = static_cast<std::size_t>(inner);
      const std::size_t in_pair = i % (2 * width);
      separate[i] = stored[names.interleaved ? i - in_pair + in_pair % width * 2 + in_pair / width : i];
    }
    return {separate, from.floats(prefix + names.down + "_bias", {layer.count, hidden})};
  }
  const std::vector<float> gates = from.floats(prefix + names.gate + ".bias", {layer.count, inner});
  const std::vector<float> ups = from.floats(prefix + names.up + ".bias", {layer.count, inner});
  ExpertBiases biases = {{}, from.floats(prefix + names.down + ".bias", {layer.count, hidden})};
  for (std::size_t at = 0; at < std::min(gates.size(), ups.size()); at += static_cast<std::size_t>(inner)) {
    for (const std::vector<float>* const part : {&gates, &ups}) {
      const auto begin = part->begin() + static_cast<std::ptrdiff_t>(at);
      biases.gate_up.insert(biases.gate_up.end(), begin, begin + inner);
    }
  }
  return biases;
}

std::vector<float> part_of(const std::vector<float>& all, int id, int width) {
  if (all.empty()) return {};  // counted
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(id) * width;
  return {begin, begin + width};
}

MlpWeights load_expert(const WeightLoader& from, int hidden, const Experts& layer, const std::string& prefix,
                       const ExpertNames& names, int id) {
  const int inner = layer.intermediate;
  const HeldRange gates(inner, from.options.ranks);
  const HeldRange outputs(hidden, from.options.ranks);
  const Placed whole(from, Holding::whole);  // what of it is here
  const std::string own = prefix + std::to_string(id) + ".";
  MlpWeights weights;
  const std::string gate = own + names.gate + ".weight";
  const std::string up = own + names.up + ".weight";
  if (from.weights.has(layer.gated ? gate : up)) {
    const std::vector<std::int64_t> all = {inner, hidden};
    std::vector<NamedMatrix> parts;
    if (layer.gated) parts.push_back({gate, gates.count, gates.first, all});
    parts.push_back({up, gates.count, gates.first, all});
    weights.gate_up = load_matrix(from, parts, hidden);
    const std::string down = own + names.down + ".weight";
    weights.down = load_matrix(from, {{down, outputs.count, outputs.first, {hidden, inner}}}, inner);
    return weights;
  }

  /// Of the rows of this expert in a tensor of all those from `first` on that are here.
  const auto part = [&](const std::string& name, int rows, int inputs, const HeldRange& here, int first = 0,
                        int step = 1) {
    NamedMatrix matrix = {
        prefix + name, here.count, id * rows + first + step * here.first, {layer.count, rows, inputs}};
    matrix.step = step;
    matrix.transposed = names.transposed && !name.ends_with(".weight");
    if (matrix.transposed) std::swap(matrix.within[1], matrix.within[2]);
    return matrix;
  };
  const auto stored = [&](const std::string& name) {
    return from.weights.has(prefix + name + ".weight") ? name + ".weight" : name;
  };
  const std::string joined = stored(names.joined);
  if (from.weights.has(prefix + joined)) {
    const int step = names.interleaved ? 2 : 1;
    const int first_up = names.interleaved ? 1 : inner;
    weights.gate_up = load_matrix(
        from, {part(joined, 2 * inner, hidden, gates, 0, step), part(joined, 2 * inner, hidden, gates, first_up, step)},
        hidden);
  } else {
    std::vector<NamedMatrix> parts;
    if (layer.gated) parts.push_back(part(std::string(names.gate) + ".weight", inner, hidden, gates));
    parts.push_back(part(std::string(names.up) + ".weight", inner, hidden, gates));
    weights.gate_up = load_matrix(from, parts, hidden);
  }
  const std::string bare = names.down;
  const std::string down = from.weights.has(prefix + bare) ? bare : bare + ".weight";
  weights.down = load_matrix(from, {part(down, hidden, inner, outputs)}, inner);
  return weights;
}

/// The experts of all rows over ranks: the gates of all of them, exchanged at once, then what `down` makes of these,
/// exchanged at once, and mixed in the order of one process. find_rows(id) finds the rows of an expert and returns how
/// many there are, gather() what they read.
template <class FindRows, class Gather, class Mix>
void compute_with_ranks(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights, int width,
                        ExpertsScratch& scratch, const FindRows& find_rows, const Gather& gather, const Mix& mix) {
  TransformerScratch& s = pass.scratch;
  Ranks& ranks = *weights.ranks;
  const int rows = pass.rows * layer.chosen;
  const int inner = layer.intermediate;
  reserve_rows(scratch.gated_of_all, rows, inner);
  reserve_rows(scratch.out_of_all, rows, width);
  const HeldRange gates(inner, &ranks);
  const HeldRange outputs(width, &ranks);
  const auto for_experts = [&](const auto& body) {
    std::ptrdiff_t first = 0;
    for (int id = 0; id < layer.count; ++id) {
      const int count = find_rows(id);
      if (count > 0) body(weights.experts[static_cast<std::size_t>(id)], first, count);
      first += count;
    }
  };
  for_experts([&](const MlpWeights& expert, std::ptrdiff_t first, int count) {
    pass.gate(expert, gather(), count);
    for (std::ptrdiff_t row = 0; row < count; ++row) {
      std::copy_n(s.gated.data() + row * gates.count, gates.count,
                  scratch.gated_of_all.data() + (first + row) * inner + gates.first);
    }
  });
  ranks.exchange(scratch.gated_of_all.data(), sizeof(float), rows, inner, bounds_of(inner, ranks));
  for_experts([&](const MlpWeights& expert, std::ptrdiff_t first, int count) {
    pack_activations(pass.kernels, expert.down, scratch.gated_of_all.data() + first * inner, inner, count,
                     s.activations);
    matmul(pass.kernels, expert.down, s.activations, scratch.out_of_all.data() + first * width + outputs.first, width);
  });
  ranks.exchange(scratch.out_of_all.data(), sizeof(float), rows, width, bounds_of(width, ranks));
  for_experts([&](const MlpWeights& expert, std::ptrdiff_t first, int count) {
    float* const out = scratch.out_of_all.data() + first * width;
    for (std::ptrdiff_t row = 0; row < count && !expert.down_bias.empty(); ++row) {
      pass.kernels.add(expert.down_bias.data(), expert.down_bias.size(), out + row * width);
    }
    mix(count, out);
  });
}

/// projected += sigmoid(gate . normed) * shared(normed), or without a gate shared(normed)
void add_shared_expert(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
                       ExpertsScratch& scratch) {
  const int hidden = pass.config.hidden;
  TransformerScratch& s = pass.scratch;
  if (layer.shared_gate) {
    pack_activations(pass.kernels, weights.shared_gate, s.normed.data(), hidden, pass.rows, s.activations);
    matmul(pass.kernels, weights.shared_gate, s.activations, scratch.logits.data(), 1);
  }
  pass.mlp(weights.shared, s.normed.data(), pass.rows, scratch.out.data());
  for_rows(pass.rows, 2.0 * pass.rows * hidden, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const float* const out = scratch.out.data() + std::ptrdiff_t{row} * hidden;
      float* const y = s.projected.data() + std::ptrdiff_t{row} * hidden;
      if (!layer.shared_gate) {
        pass.kernels.add(out, static_cast<std::size_t>(hidden), y);
        continue;
      }
      const auto gate = static_cast<float>(sigmoid(scratch.logits[static_cast<std::size_t>(row)]));
      for (int d = 0; d < hidden; ++d) y[d] += gate * out[d];
    }
  });
}

/// Puts the `count` ids of the largest values first, ascending; of equal ones the smaller id. One by one, because NaN
/// has no order that a sort could rely on.
void choose(const std::vector<double>& values, std::size_t count, std::vector<int>& ids) {
  for (std::size_t first = 0; first < count; ++first) {
    std::size_t best = first;
    for (std::size_t other = first + 1; other < ids.size(); ++other) {
      const double a = values[static_cast<std::size_t>(ids[other])];
      const double b = values[static_cast<std::size_t>(ids[best])];
      if (a > b || (a == b && ids[other] < ids[best])) best = other;
    }
    std::swap(ids[first], ids[best]);
  }
  std::sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

/// Leaves the ids of the experts in the groups that are chosen, ascending.
void keep_groups(const Experts& layer, const std::vector<double>& by, std::vector<int>& ids) {
  const int size = layer.count / layer.groups;
  std::vector<int> groups(static_cast<std::size_t>(layer.groups));
  std::vector<double> sums(groups.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    groups[group] = static_cast<int>(group);
    double largest = by[group * static_cast<std::size_t>(size)];
    double second = -std::numeric_limits<double>::infinity();
    for (int i = 1; i < size; ++i) {
      const double value = by[group * static_cast<std::size_t>(size) + static_cast<std::size_t>(i)];
      second = std::max(second, std::min(largest, value));
      largest = std::max(largest, value);
    }
    sums[group] = layer.group_rank == GroupRank::best ? largest : largest + second;
  }
  choose(sums, static_cast<std::size_t>(layer.groups_chosen), groups);
  ids.clear();
  for (int group = 0; group < layer.groups_chosen; ++group) {
    for (int i = 0; i < size; ++i) ids.push_back(groups[static_cast<std::size_t>(group)] * size + i);
  }
}

}  // namespace

Experts read_experts(const Json& config, std::string_view intermediate, const ExpertFields& fields) {
  Experts experts;
  experts.count =
      *fields.count == '\0' ? read_count(config) : static_cast<int>(config.at(fields.count).integer(1, experts_max));
  experts.chosen = static_cast<int>(config.at(fields.chosen).integer(1, experts.count));
  experts.intermediate = positive(config, intermediate);
  return experts;
}

void read_grouped_router(const Json& config, Experts& to, const GroupedRouterFields& fields) {
  to.scores = RouterScores::sigmoid;
  to.choice_bias = true;
  const auto normalized = config.find(fields.normalized);
  to.normalized = !normalized || normalized->boolean();
  to.sum_added = 1e-20;
  to.scale = read_factor(config, "routed_scaling_factor");
  read_groups(config, to, fields);
  put_shared_expert(config, fields.shared, 1, to);
}

void read_groups(const Json& config, Experts& to, const GroupedRouterFields& fields) {
  to.groups = positive(config, fields.groups, 1);
  to.groups_chosen = positive(config, fields.groups_chosen, 1);
  if (to.groups > 1) {
    if (to.count % to.groups != 0 || to.count / to.groups < 2) {
      config.at(fields.groups).fail("must divide " + std::to_string(to.count) + " experts into groups of 2 or more");
    }
    if (to.groups_chosen > to.groups || to.groups_chosen * (to.count / to.groups) < to.chosen) {
      config.find(fields.groups_chosen)
          .value_or(config)
          .fail(std::string("must be at most ") + fields.groups + " and leave " + fields.chosen + " experts");
    }
  }
}

void put_shared_expert(const Json& config, const char* field, int count, Experts& to) {
  const auto stated = config.find(field);
  const std::int64_t size = (stated ? stated->integer(0, to.count) : count) * std::int64_t{to.intermediate};
  if (size > 1 << 24) stated.value_or(config).fail("makes a shared expert larger than any real model's");
  to.shared = static_cast<int>(size);
  to.shared_gate = false;
}

void put_experts_behind(const Json& config, const Experts& experts, TransformerConfig& to) {
  const auto dense = config.find("first_k_dense_replace");
  for (int i = dense ? static_cast<int>(dense->integer(0, to.depth())) : 1; i < to.depth(); ++i) {
    LayerConfig& layer = to.layers[static_cast<std::size_t>(i)];
    layer.experts = experts;
    layer.intermediate = 0;
  }
}

void put_experts_by_type(const Json& config, const Experts& experts, TransformerConfig& to) {
  const auto types = config.find("mlp_layer_types");
  if (!types) {
    config.at("first_k_dense_replace");
    put_experts_behind(config, experts, to);
    return;
  }
  if (!types->is_array() || types->size() != to.layers.size()) {
    types->fail("must list one type for each of the " + std::to_string(to.depth()) + " layers");
  }
  for (std::size_t i = 0; i < to.layers.size(); ++i) {
    const Json type = (*types)[i];
    if (type.string() == "dense") continue;
    if (type.string() != "sparse") type.fail("must be 'dense' or 'sparse'");
    to.layers[i].experts = experts;
    to.layers[i].intermediate = 0;
  }
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

namespace {

/// MLX has one tensor each of all experts, whose names are the same in all architectures.
ExpertNames names_in(const Checkpoint& files, const std::string& prefix, ExpertNames names) {
  const bool gated = files.has(prefix + "switch_mlp.up_proj.weight");
  if (!gated && !files.has(prefix + "switch_mlp.fc1.weight")) return names;
  names.experts = "switch_mlp.";
  names.gate = "gate_proj";
  names.up = gated ? "up_proj" : "fc1";
  names.down = gated ? "down_proj" : "fc2";
  return names;
}

}  // namespace

ExpertsWeights load_experts(const WeightLoader& from, int hidden, const Experts& layer, const std::string& prefix,
                            const ExpertNames& named) {
  const ExpertNames names = names_in(from.weights, prefix, named);
  ExpertsWeights weights;
  const int width = layer.latent > 0 ? layer.latent : hidden;
  if (layer.latent > 0) {
    weights.latent_down = load_matrix(from, {{prefix + names.latent_down, layer.latent}}, hidden);
    weights.latent_up = load_matrix(from, {{prefix + names.latent_up, hidden}}, layer.latent);
  }
  {
    const Placed whole(from, Holding::whole);  // it is small
    weights.router = load_matrix(from, {{prefix + names.router, layer.count}}, hidden);
  }
  if (layer.router_bias) weights.router_bias = from.floats(prefix + names.router_bias, {layer.count});
  if (layer.choice_bias) {
    const std::string bias = prefix + names.choice_bias;
    const bool in_a_row = from.weights.has(bias, {1, layer.count});
    weights.choice_bias = from.floats(
        bias, in_a_row ? std::vector<std::int64_t>{1, layer.count} : std::vector<std::int64_t>{layer.count});
  }
  ExpertBiases biases;
  if (layer.bias) biases = load_biases(from, width, layer, prefix + names.experts, names);
  weights.ranks = from.options.ranks;
  const HeldRange gates(layer.intermediate, weights.ranks);
  for (int id = 0; id < layer.count; ++id) {
    MlpWeights& expert =
        weights.experts.emplace_back(load_expert(from, width, layer, prefix + names.experts, names, id));
    expert.ranks = weights.ranks;
    for (int half = 0; half < 2; ++half) {
      const std::vector<float> all = part_of(biases.gate_up, 2 * id + half, layer.intermediate);
      const auto here = all.begin() + (all.empty() ? 0 : gates.first);
      expert.gate_up_bias.insert(expert.gate_up_bias.end(), here, here + (all.empty() ? 0 : gates.count));
    }
    expert.down_bias = part_of(biases.down, id, width);
  }
  if (layer.shared > 0) {
    const std::string shared = prefix + names.shared;
    weights.shared = layer.gated
                         ? load_mlp(from, hidden, layer.shared, false, shared)
                         : load_plain_mlp(from, hidden, layer.shared, false, shared + "up_proj", shared + "down_proj");
    if (layer.shared_gate) {
      const Placed whole(from, Holding::whole);
      weights.shared_gate = load_matrix(from, {{prefix + "shared_expert_gate.weight", 1}}, hidden);
    }
  }
  return weights;
}

Choices choose_experts(const float* logits, int rows, const Experts& layer, std::span<const float> scales,
                       std::span<const float> choice_bias) {
  const auto chosen = static_cast<std::size_t>(layer.chosen);
  Choices choices;
  choices.experts.reserve(chosen * static_cast<std::size_t>(rows));
  choices.weights.reserve(choices.experts.capacity());
  std::vector<double> p(static_cast<std::size_t>(layer.count));
  std::vector<double> by(p.size());  // what experts are chosen by
  std::vector<int> ids;
  for (int row = 0; row < rows; ++row) {
    const float* const of = logits + static_cast<std::ptrdiff_t>(row) * layer.count;
    const double max = *std::max_element(of, of + layer.count);
    double total = 0;
    ids.resize(p.size());
    for (std::size_t e = 0; e < p.size(); ++e) {
      ids[e] = static_cast<int>(e);
      p[e] = layer.scores == RouterScores::sigmoid ? sigmoid(of[e]) : exp64(of[e] - max);
      total += p[e];
    }
    const double share = layer.scores == RouterScores::sigmoid ? 1 : total;  // of which a score is a part
    for (std::size_t e = 0; e < p.size(); ++e) by[e] = choice_bias.empty() ? of[e] : p[e] / share + choice_bias[e];
    if (layer.groups > 1) keep_groups(layer, by, ids);
    choose(by, chosen, ids);
    double sum = std::isnan(total) ? total : share;
    if (layer.normalized && !std::isnan(total)) {
      sum = 0;
      for (std::size_t k = 0; k < chosen; ++k) sum += p[static_cast<std::size_t>(ids[k])];
      sum = std::max(sum + layer.sum_added * share, layer.sum_min * share);
    }
    for (std::size_t k = 0; k < chosen; ++k) {
      const auto id = static_cast<std::size_t>(ids[k]);
      choices.experts.push_back(ids[k]);
      choices.weights.push_back(static_cast<float>(p[id] / sum * layer.scale * (scales.empty() ? 1 : scales[id])));
    }
  }
  return choices;
}

std::size_t ExpertsScratch::bytes_per_row(const Experts& layer, int hidden, bool over_ranks) noexcept {
  const int width = std::max(hidden, layer.latent);
  const int of_all = over_ranks ? layer.chosen * (layer.intermediate + width) : 0;
  return sizeof(float) *
         static_cast<std::size_t>(layer.count + 2 * width + 2 * layer.latent + 2 * layer.chosen + 1 + of_all);
}

Choices route(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights, ExpertsScratch& scratch,
              std::span<const float> scales) {
  TransformerScratch& s = pass.scratch;
  reserve_rows(scratch.logits, pass.rows, layer.count);
  pack_activations(pass.kernels, weights.router, s.normed.data(), pass.config.hidden, pass.rows, s.activations);
  matmul(pass.kernels, weights.router, s.activations, scratch.logits.data(), layer.count);
  for (int row = 0; row < pass.rows && layer.router_bias; ++row) {
    pass.kernels.add(weights.router_bias.data(), weights.router_bias.size(),
                     scratch.logits.data() + std::ptrdiff_t{row} * layer.count);
  }
  return choose_experts(scratch.logits.data(), pass.rows, layer, scales, weights.choice_bias);
}

void mix_experts(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
                 const Choices& choices, ExpertsScratch& scratch) {
  const int hidden = pass.config.hidden;
  const bool latent = layer.latent > 0;
  const int inputs = latent ? layer.latent : hidden;
  const auto width = static_cast<std::size_t>(inputs);
  TransformerScratch& s = pass.scratch;
  reserve_rows(scratch.gathered, pass.rows, inputs);
  reserve_rows(scratch.out, pass.rows, std::max(inputs, hidden));
  if (latent) {
    reserve_rows(scratch.latent, pass.rows, inputs);
    reserve_rows(scratch.mixed, pass.rows, inputs);
    pack_activations(pass.kernels, weights.latent_down, s.normed.data(), hidden, pass.rows, s.activations);
    matmul(pass.kernels, weights.latent_down, s.activations, scratch.latent.data(), inputs);
  }
  const float* const read = latent ? scratch.latent.data() : s.normed.data();
  float* const mixed = latent ? scratch.mixed.data() : s.projected.data();
  std::fill_n(mixed, static_cast<std::ptrdiff_t>(pass.rows) * inputs, 0.0F);
  const auto row_of = [&](std::size_t i) { return static_cast<std::size_t>(scratch.rows[i] / layer.chosen); };
  const auto weight_of = [&](std::size_t i) { return choices.weights[static_cast<std::size_t>(scratch.rows[i])]; };
  const auto find_rows = [&](int id) {
    scratch.rows.clear();  // of `choices`
    for (std::size_t at = 0; at < choices.experts.size(); ++at) {
      if (choices.experts[at] == id) scratch.rows.push_back(static_cast<int>(at));
    }
    return static_cast<int>(scratch.rows.size());
  };
  const auto gather = [&] {
    for (std::size_t i = 0; i < scratch.rows.size(); ++i) {
      float* const x = scratch.gathered.data() + i * width;
      std::memcpy(x, read + row_of(i) * width, width * sizeof(float));
      for (std::size_t d = 0; d < width && layer.weighted_inputs; ++d) x[d] *= weight_of(i);
    }
    return scratch.gathered.data();
  };
  const auto mix = [&](int count, const float* from) {
    for_rows(count, 2.0 * count * inputs, [&](int begin, int end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        const float weight = layer.weighted_inputs ? 1 : weight_of(i);
        const float* const out = from + i * width;
        float* const y = mixed + row_of(i) * width;
        for (std::size_t d = 0; d < width; ++d) y[d] += weight * out[d];
      }
    });
  };
  if (weights.ranks == nullptr) {
    for (int id = 0; id < layer.count; ++id) {
      const int count = find_rows(id);
      if (count == 0) continue;
      pass.mlp(weights.experts[static_cast<std::size_t>(id)], gather(), count, scratch.out.data());
      mix(count, scratch.out.data());
    }
  } else {
    compute_with_ranks(pass, layer, weights, inputs, scratch, find_rows, gather, mix);
  }
  if (latent) {
    pack_activations(pass.kernels, weights.latent_up, mixed, inputs, pass.rows, s.activations);
    matmul(pass.kernels, weights.latent_up, s.activations, s.projected.data(), hidden);
  }
  if (layer.shared > 0) add_shared_expert(pass, layer, weights, scratch);
}

void mix_experts(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
                 ExpertsScratch& scratch) {
  mix_experts(pass, layer, weights, route(pass, layer, weights, scratch), scratch);
}

void feed_forward(const TransformerPass& pass, int i, const MlpWeights& mlp, const ExpertsWeights& experts,
                  ExpertsScratch& scratch) {
  const Experts& of = pass.config.layers[static_cast<std::size_t>(i)].experts;
  if (of.count == 0) pass.mlp(mlp);
  else mix_experts(pass, of, experts, scratch);
}

}  // namespace draftproof
