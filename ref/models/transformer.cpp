// SPDX-License-Identifier: MIT
#include "ref/models/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/math64.h"
#include "kernels/packed_activations.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/models/gated_delta_net.h"
#include "ref/models/selective_scan.h"
#include "ref/models/state_space.h"

namespace draftproof {

static_assert(AttentionCache::block == lanes, "kernels and caches must agree on the block of positions");

namespace {

constexpr double gate_work = 16;  // multiplications that one element of a gated MLP costs about as much as

/// The widest rows that the layers of a config need.
struct Widths {
  int qkv = 0;
  int attended = 0;
  int intermediate = 0;
  int turns = 0;  // of all RoPEs, cosine and sine

  explicit Widths(const TransformerConfig& config) noexcept {
    intermediate = config.layer_embedding;
    for (const LayerConfig& layer : config.layers) {
      const Experts& experts = layer.experts;
      intermediate = std::max({intermediate, layer.intermediate, experts.intermediate, experts.shared});
      const auto* const attention = std::get_if<AttentionLayer>(&layer.mixer);
      if (attention == nullptr) continue;
      qkv = std::max(qkv, attention->projected());
      attended = std::max(attended, attention->attended_width());
    }
    for (const Rope& rope : config.ropes) turns += 2 * rope.half();
  }
};

void append(std::vector<float>& to, const std::vector<float>& more) { to.insert(to.end(), more.begin(), more.end()); }

/// y [rows][bias] += bias, unless it is empty
void add_bias(const Kernels& kernels, const std::vector<float>& bias, int rows, float* y) {
  if (bias.empty()) return;
  const auto width = static_cast<std::ptrdiff_t>(bias.size());
  for_rows(rows, 2.0 * rows * static_cast<double>(width), [&](int begin, int end) {
    for (int row = begin; row < end; ++row) kernels.add(bias.data(), bias.size(), y + row * width);
  });
}

/// x [rows][weight] = norm(x), unless there is no weight
void normalize_each(const Kernels& kernels, const std::vector<float>& weight, float epsilon, int rows, float* x) {
  if (weight.empty()) return;
  const int width = static_cast<int>(weight.size());
  for_rows(rows, 4.0 * rows * width, [&](int begin, int end) {
    float* const first = x + static_cast<std::ptrdiff_t>(begin) * width;
    kernels.rms_norm(first, width, end - begin, 1, width, weight.data(), epsilon, first, width);
  });
}

std::unique_ptr<LayerCache> new_layer_cache(const TransformerConfig& config, const LayerConfig& layer,
                                            const Kernels& kernels, KvFormat kv, int capacity, int max_pending_rows,
                                            Ranks* ranks) {
  if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) {
    return new_gated_delta_net_cache(kernels, *shape, max_pending_rows);
  }
  if (const auto* const shape = std::get_if<ConvolutionShape>(&layer.mixer)) {
    return std::make_unique<ConvolutionCache>(*shape, max_pending_rows);
  }
  if (const auto* const shape = std::get_if<SelectiveScanShape>(&layer.mixer)) {
    return new_selective_scan_cache(kernels, *shape, max_pending_rows);
  }
  if (const auto* const shape = std::get_if<StateSpaceShape>(&layer.mixer)) {
    return new_state_space_cache(*shape, max_pending_rows);
  }
  const auto& attention = std::get<AttentionLayer>(layer.mixer);
  AttentionCache::TurnBack turn_back;
  if (attention.rope != AttentionLayer::no_rope) {
    turn_back = config.ropes[static_cast<std::size_t>(attention.rope)].turn_back(kernels, attention.shape.head_dim);
  }
  return std::make_unique<AttentionCache>(attention.shape.kv_heads, attention.shape.head_dim, attention.window,
                                          capacity, max_pending_rows, kv, std::move(turn_back), attention.shape.latent,
                                          ranks);
}

}  // namespace

namespace {

/// The pairs of a head that are neighbors in the checkpoint; 0: none are.
int turned_pairs(const TransformerConfig& config, const AttentionLayer& layer) {
  const bool turns = layer.interleaved && layer.rope != AttentionLayer::no_rope;
  return turns ? config.ropes[static_cast<std::size_t>(layer.rope)].half() : 0;
}

/// The value of a head in the checkpoint that becomes its value `to`: first those at even places, then those at odd
/// ones, of as many as RoPE turns.
int place_of(int to, int pairs) { return to >= 2 * pairs ? to : to < pairs ? 2 * to : 2 * (to - pairs) + 1; }

void separate_pairs(std::vector<float>& values, int pairs, int head_dim) {
  if (values.empty()) return;  // counted
  const std::vector<float> stored = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto d = static_cast<std::size_t>(head_dim);
    values[i] = stored[i / d * d + static_cast<std::size_t>(place_of(static_cast<int>(i % d), pairs))];
  }
}

/// Rows of q, k or v: of some of its heads.
struct HeldRows {
  int first;
  int count;
};

/// Adds rows of q, k or v, those of pairs in the order that `place_of` says.
void add_rows(std::vector<NamedMatrix>& parts, const std::string& name, HeldRows rows, int width, int inputs, int pairs,
              const AttentionLayer& layer) {
  if (pairs == 0) {
    parts.push_back({name, rows.count, rows.first, {width, inputs}});
    return;
  }
  const int d = layer.shape.head_dim;
  for (int row = rows.first; row < rows.first + rows.count; ++row) {
    parts.push_back({name, 1, row / d * d + place_of(row % d, pairs), {width, inputs}});
  }
}

std::vector<float> some_of(const std::vector<float>& all, int first, int count) {
  if (all.empty()) return {};  // counted
  return {all.begin() + first, all.begin() + first + count};
}

}  // namespace

ProjectedHeads::ProjectedHeads(const AttentionLayer& layer, const AttentionWeights& weights) noexcept
    : held(held_heads(layer.shape.heads, layer.shape.kv_heads, weights.ranks)),
      q_width(held.heads * layer.shape.head_dim),
      kv_width(held.kv_heads * layer.shape.head_dim),
      stride(layer.projected()) {
  if (weights.ranks != nullptr) stride = q_width + (layer.donor == AttentionLayer::own ? 2 * kv_width : 0);
}

AttentionWeights load_attention(const WeightLoader& from, const TransformerConfig& config, const AttentionLayer& layer,
                                const std::string& prefix, int inputs, const std::string& output) {
  const int q = layer.q_width();
  const int kv = layer.kv_width();
  AttentionWeights weights;
  if (layer.qk_norm != QkNorm::whole && layer.gate == 0) weights.ranks = from.options.ranks;
  const ProjectedHeads here(layer, weights);
  const HeldRows of_q = {here.held.first * layer.shape.head_dim, here.q_width};
  const HeldRows of_kv = {here.held.kv_first * layer.shape.head_dim, here.kv_width};
  const bool own = layer.donor == AttentionLayer::own;
  {
    const Placed placed(from, weights.ranks != nullptr ? Holding::whole : Holding::cut);
    const std::string joined = prefix + "qkv_proj.weight";
    std::vector<NamedMatrix> parts;
    if (from.weights.has(joined) && weights.ranks == nullptr) {
      parts.push_back({joined, layer.projected()});
    } else if (from.weights.has(joined)) {
      const std::vector<std::int64_t> all = {layer.projected(), inputs};
      parts.push_back({joined, of_q.count, of_q.first, all});
      if (own) parts.push_back({joined, of_kv.count, q + of_kv.first, all});
      if (own) parts.push_back({joined, of_kv.count, q + kv + of_kv.first, all});
    } else {
      const auto add = [&](const std::string& name, HeldRows rows, int width, bool turned) {
        const int pairs = turned ? turned_pairs(config, layer) : 0;
        add_rows(parts, prefix + name + ".weight", rows, width, inputs, pairs, layer);
      };
      add("q_proj", of_q, q, true);
      if (own) add("k_proj", of_kv, kv, true);
      if (own && !layer.values_from_keys) add("v_proj", of_kv, kv, false);
    }
    weights.qkv = load_matrix(from, parts, inputs);
  }
  weights.output = load_matrix(from, {{prefix + output + ".weight", config.hidden}}, q);
  if (layer.qkv_bias && from.weights.has(prefix + "qkv_proj.bias")) {
    const std::vector<float> bias = from.floats(prefix + "qkv_proj.bias", {layer.projected()});
    weights.qkv_bias = weights.ranks == nullptr ? bias : some_of(bias, of_q.first, of_q.count);
    if (weights.ranks != nullptr && own) {
      append(weights.qkv_bias, some_of(bias, q + of_kv.first, of_kv.count));
      append(weights.qkv_bias, some_of(bias, q + kv + of_kv.first, of_kv.count));
    }
  } else if (layer.qkv_bias) {
    for (const auto& [name, width] : {std::pair("q_proj.bias", q), {"k_proj.bias", kv}, {"v_proj.bias", kv}}) {
      std::vector<float> bias = from.floats(prefix + name, {width});
      if (name[0] != 'v') separate_pairs(bias, turned_pairs(config, layer), layer.shape.head_dim);
      const HeldRows& rows = name[0] == 'q' ? of_q : of_kv;
      append(weights.qkv_bias, some_of(bias, rows.first, rows.count));
    }
  }
  if (layer.sinks) {
    const std::string sinks = prefix + "sinks";
    weights.sinks = from.floats(from.weights.has(sinks) ? sinks : prefix + "attention_sink_bias", {layer.shape.heads});
  }
  if (layer.output_bias) weights.output_bias = from.floats(prefix + output + ".bias", {config.hidden});
  return weights;
}

void load_head_norms(const WeightLoader& from, const TransformerConfig& config, const AttentionLayer& layer,
                     const std::string& prefix, AttentionWeights& to) {
  if (layer.qk_norm == QkNorm::plain_heads) {
    to.q_norm.assign(static_cast<std::size_t>(layer.shape.head_dim), 1.0F);
    to.k_norm = to.q_norm;
    return;
  }
  const bool whole = layer.qk_norm == QkNorm::whole;
  to.q_norm = load_norm(from, config, prefix + "q_norm.weight", whole ? layer.q_width() : layer.shape.head_dim);
  if (layer.donor != AttentionLayer::own) return;
  to.k_norm = load_norm(from, config, prefix + "k_norm.weight", whole ? layer.kv_width() : layer.shape.head_dim);
}

MlpWeights load_mlp(const WeightLoader& from, int hidden, int intermediate, bool bias, const std::string& prefix,
                    bool rows) {
  MlpWeights weights;
  weights.ranks = rows ? nullptr : from.options.ranks;
  const HeldRange here(intermediate, weights.ranks);
  {
    const Placed placed(from, weights.ranks != nullptr ? Holding::whole : Holding::cut);
    const std::string joined = prefix + "gate_up_proj.weight";
    std::vector<NamedMatrix> parts;
    for (const bool up : {false, true}) {
      const std::string name = prefix + (up ? "up_proj.weight" : "gate_proj.weight");
      if (!from.weights.has(joined)) parts.push_back({name, here.count, here.first, {intermediate, hidden}});
      else parts.push_back({joined, here.count, (up ? intermediate : 0) + here.first, {2 * intermediate, hidden}});
    }
    weights.gate_up = load_matrix(from, parts, hidden);
  }
  weights.down = load_matrix(from, {{prefix + "down_proj.weight", hidden}}, intermediate);
  if (bias) {
    weights.gate_up_bias = some_of(from.floats(prefix + "gate_proj.bias", {intermediate}), here.first, here.count);
    append(weights.gate_up_bias, some_of(from.floats(prefix + "up_proj.bias", {intermediate}), here.first, here.count));
    weights.down_bias = from.floats(prefix + "down_proj.bias", {hidden});
  }
  return weights;
}

MlpWeights load_plain_mlp(const WeightLoader& from, int hidden, int intermediate, bool bias, const std::string& up,
                          const std::string& down) {
  MlpWeights weights;
  weights.ranks = from.options.ranks;
  const HeldRange here(intermediate, weights.ranks);
  {
    const Placed placed(from, weights.ranks != nullptr ? Holding::whole : Holding::cut);
    weights.gate_up = load_matrix(from, {{up + ".weight", here.count, here.first, {intermediate, hidden}}}, hidden);
  }
  weights.down = load_matrix(from, {{down + ".weight", hidden}}, intermediate);
  if (bias) {
    weights.gate_up_bias = some_of(from.floats(up + ".bias", {intermediate}), here.first, here.count);
    weights.down_bias = from.floats(down + ".bias", {hidden});
  }
  return weights;
}

std::vector<float> load_norm(const WeightLoader& from, const TransformerConfig& config, const std::string& name,
                             int width) {
  if (config.norm == Norm::plain) return std::vector<float>(static_cast<std::size_t>(width), 1.0F);
  std::vector<float> weight = from.floats(name, {width});
  if (config.norm_offset != 0) {
    for (float& value : weight) value += config.norm_offset;
  }
  const std::string bias = name.substr(0, name.rfind('.')) + ".bias";
  if (config.norm == Norm::layer && from.weights.has(bias)) append(weight, from.floats(bias, {width}));
  return weight;
}

void normalize_rows(const Kernels& kernels, const TransformerConfig& config, const std::vector<float>& weight,
                    const float* from, int count, float* to) {
  const int width = config.hidden;
  if (config.norm != Norm::layer) {
    kernels.rms_norm(from, width, count, 1, width, weight.data(), config.epsilon, to, width);
    return;
  }
  for (std::ptrdiff_t row = 0; row < count; ++row) {
    const std::span<const float> x(from + row * width, static_cast<std::size_t>(width));
    double sum = 0;
    for (const float value : x) sum += value;
    const auto mean = static_cast<float>(sum / width);
    float* const y = to + row * width;
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] - mean;
    kernels.rms_norm(y, width, 1, 1, width, weight.data(), config.epsilon, y, width);
    if (weight.size() > x.size()) kernels.add(weight.data() + width, x.size(), y);
  }
}

std::vector<float> taps_by_row(const std::vector<float>& stored, int width) {
  std::vector<float> taps(stored.size());
  const std::size_t each = static_cast<std::size_t>(width);
  const std::size_t channels = stored.size() / each;
  for (std::size_t i = 0; i < stored.size(); ++i) taps[i % each * channels + i / each] = stored[i];
  return taps;
}

void stretch_rope(const WeightLoader& from, Rope& rope) {
  constexpr const char* name = "rope_freqs.weight";
  if (!from.weights.has(name)) return;
  if (rope.kind != "default") throw Error(from.weights.path().string() + ": stretches RoPE twice");
  const std::vector<float> by = from.floats(name, {rope.half()});
  for (std::size_t j = 0; j < by.size(); ++j) {
    if (!(by[j] > 0)) throw Error(from.weights.path().string() + ": tensor " + name + " must be positive");
    rope.frequencies[j] /= by[j];
  }
}

PreNormLayer load_pre_norm_layer(const WeightLoader& from, const TransformerConfig& config, int i,
                                 const std::string& prefix) {
  const LayerConfig& layer = config.layers.at(static_cast<std::size_t>(i));
  PreNormLayer weights;
  weights.attention = load_attention(from, config, config.attention(i), prefix + "self_attn.", config.hidden);
  if (layer.experts.count == 0) {
    weights.mlp = load_mlp(from, config.hidden, layer.intermediate, layer.mlp_bias, prefix + "mlp.");
  }
  weights.attention_norm = load_norm(from, config, prefix + "input_layernorm.weight", config.hidden);
  weights.mlp_norm = load_norm(from, config, prefix + "post_attention_layernorm.weight", config.hidden);
  return weights;
}

std::vector<std::unique_ptr<LayerCache>> new_layer_caches(const TransformerConfig& config, const Kernels& kernels,
                                                          KvFormat kv, int capacity, int max_pending_rows,
                                                          Ranks* ranks) {
  std::vector<std::unique_ptr<LayerCache>> layers;
  for (const LayerConfig& layer : std::span(config.layers).first(static_cast<std::size_t>(config.cached_layers()))) {
    if (std::holds_alternative<NoMixer>(layer.mixer)) continue;
    layers.push_back(new_layer_cache(config, layer, kernels, kv, capacity, max_pending_rows, ranks));
    if (layer.beside) layers.push_back(new_state_space_cache(*layer.beside, max_pending_rows));
  }
  return layers;
}

std::unique_ptr<Cache> new_transformer_cache(const TransformerConfig& config, const Kernels& kernels, KvFormat kv,
                                             int capacity, int max_pending_rows, Ranks* ranks) {
  return std::make_unique<Cache>(new_layer_caches(config, kernels, kv, capacity, max_pending_rows, ranks), capacity,
                                 max_pending_rows);
}

void soft_cap(std::span<float> logits, float cap) {
  for (float& logit : logits) {
    if (logit == -std::numeric_limits<float>::infinity()) continue;
    logit = static_cast<float>(cap * (1 - 2 / (exp64(2.0 * logit / cap) + 1)));
  }
}

void leave_out_tokens(int first, int vocabulary, std::span<float> logits) {
  const int rows = static_cast<int>(logits.size() / static_cast<std::size_t>(vocabulary));
  for_rows(rows, static_cast<double>(rows) * (vocabulary - first), [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      float* const of_row = logits.data() + std::ptrdiff_t{row} * vocabulary;
      std::fill(of_row + first, of_row + vocabulary, -std::numeric_limits<float>::infinity());
    }
  });
}

Placement placement_of(const Segment& segment) {
  Cache& cache = *segment.cache;
  return {.cache = &cache,
          .rows = segment.rows(),
          .position = segment.depths.empty() ? cache.end() : cache.length(),
          .depths = segment.depths};
}

std::size_t TransformerScratch::bytes_per_row(const TransformerConfig& config) noexcept {
  const Widths widths(config);
  const int floats = 3 * config.hidden + widths.qkv + widths.attended + 3 * widths.intermediate + widths.turns;
  return sizeof(float) * static_cast<std::size_t>(floats);
}

void reserve_rows(std::vector<float>& buffer, int rows, int width) {
  const std::size_t size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  if (buffer.size() < size) buffer.resize(size);
}

void TransformerScratch::forget_rows() {
  caches.clear();
  first_rows.clear();
  positions.clear();
  ranges.clear();
  trees.clear();
  rows_max = 0;
  positions_max = 0;
}

void TransformerScratch::lay_out(const TransformerConfig& config, std::span<const Placement> segments) {
  forget_rows();
  for (const Placement& segment : segments) {
    caches.push_back(segment.cache);
    first_rows.push_back(rows());
    trees.push_back(!segment.depths.empty());
    rows_max = std::max(rows_max, segment.rows);
    positions_max = std::max(positions_max, segment.cache->capacity());
    int turn = 0;
    for (int row = 0; row < segment.rows; ++row) {
      const int at = segment.position + (segment.depths.empty() ? row : segment.depths[row]);
      if (row == 0 || at != positions.back() + 1) {
        ranges.push_back({static_cast<int>(first_rows.size()) - 1, rows(), 0, at, turn++});
      }
      ++ranges.back().rows;
      positions.push_back(at);
    }
  }
  std::stable_sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.turn < b.turn; });
  make_room(config);
}

void TransformerScratch::lay_out_unwritten(const TransformerConfig& config, std::span<const int> at) {
  forget_rows();
  positions.assign(at.begin(), at.end());
  make_room(config);
}

/// For the rows at `positions` and the segments in `caches`.
void TransformerScratch::make_room(const TransformerConfig& config) {
  const Widths widths(config);
  reserve_rows(hidden_states, rows(), config.hidden);
  reserve_rows(normed, rows(), config.hidden);
  reserve_rows(qkv, rows(), widths.qkv);
  reserve_rows(attended, rows(), widths.attended);
  reserve_rows(projected, rows(), config.hidden);
  reserve_rows(gate_up, rows(), 2 * widths.intermediate);
  reserve_rows(gated, rows(), widths.intermediate);
  visible.resize(positions.size());
  kv.resize(caches.size());
  turns.resize(config.ropes.size());
  for (std::size_t i = 0; i < turns.size(); ++i) config.ropes[i].angles(positions, turns[i].cosine, turns[i].sine);
}

void TransformerPass::normalize(const std::vector<float>& weight) const {
  normalize(weight, scratch.hidden_states.data(), scratch.normed.data());
}

void TransformerPass::normalize_projected(const std::vector<float>& weight) const {
  normalize(weight, scratch.projected.data(), scratch.projected.data());
}

void TransformerPass::normalize(const std::vector<float>& weight, const float* from, float* to) const {
  const int hidden = config.hidden;
  for_rows(rows, 4.0 * rows * hidden, [&](int begin, int end) {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(begin) * hidden;
    normalize_rows(kernels, config, weight, from + first, end - begin, to + first);
  });
}

void TransformerPass::project(const AttentionLayer& layer, const AttentionWeights& weights) const {
  TransformerScratch& s = scratch;
  const ProjectedHeads here(layer, weights);
  const int stride = here.stride;
  pack_activations(kernels, weights.qkv, s.normed.data(), weights.qkv.inputs(), rows, s.activations);
  matmul(kernels, weights.qkv, s.activations, s.qkv.data(), stride);

  const AttentionShape& shape = layer.shape;
  const double work = 4.0 * rows * (here.q_width + here.kv_width);
  for_rows(rows, work, [&](int begin, int end) {
    float* const q = s.qkv.data() + static_cast<std::ptrdiff_t>(begin) * stride;
    float* const k = q + here.q_width;
    float* const v = k + here.kv_width;
    const bool own = layer.donor == AttentionLayer::own;
    const int count = end - begin;
    if (!weights.qkv_bias.empty()) {
      for (int row = 0; row < count; ++row) {
        kernels.add(weights.qkv_bias.data(), weights.qkv_bias.size(), q + static_cast<std::ptrdiff_t>(row) * stride);
      }
    }
    if (layer.values_from_keys && own) {
      for (std::ptrdiff_t row = 0; row < count; ++row) {
        std::copy_n(k + row * stride, here.kv_width, v + row * stride);
      }
    }
    const auto normalize_heads = [&](const std::vector<float>& weight, int width, float* x) {
      if (weight.empty()) return;
      const int each = static_cast<int>(weight.size());
      kernels.rms_norm(x, stride, count, width / each, each, weight.data(), config.epsilon, x, stride);
    };
    normalize_heads(weights.q_norm, here.q_width, q);
    normalize_heads(weights.k_norm, here.kv_width, k);
    normalize_heads(weights.v_norm, here.kv_width, v);
    if (layer.rope != AttentionLayer::no_rope) {
      const int half = config.ropes[static_cast<std::size_t>(layer.rope)].half();
      const Turns& turns = s.turns[static_cast<std::size_t>(layer.rope)];
      const float* const cosine = turns.cosine.data() + static_cast<std::ptrdiff_t>(begin) * half;
      const float* const sine = turns.sine.data() + static_cast<std::ptrdiff_t>(begin) * half;
      kernels.rope(q, stride, count, here.held.heads, shape.head_dim, half, cosine, sine);
      if (own) kernels.rope(k, stride, count, here.held.kv_heads, shape.head_dim, half, cosine, sine);
    }
    if (layer.growth.beta != 0) {
      for (int row = 0; row < count; ++row) {
        const float factor = layer.growth.at(s.positions[static_cast<std::size_t>(begin + row)]);
        const std::span<float> queries(q + static_cast<std::ptrdiff_t>(row) * stride,
                                       static_cast<std::size_t>(here.q_width));
        for (float& value : queries) value *= factor;
      }
    }
  });
}

void exchange_heads(const AttentionShape& shape, Ranks& ranks, int rows, const float* here, float* attended) {
  const HeldHeads held = held_heads(shape.heads, shape.kv_heads, &ranks);
  const std::ptrdiff_t dim = value_dim(shape);
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    std::copy_n(here + row * held.heads * dim, held.heads * dim, attended + (row * shape.heads + held.first) * dim);
  }
  ranks.exchange(attended, sizeof(float) * static_cast<std::size_t>(dim), rows, shape.heads,
                 head_bounds(shape.heads, shape.kv_heads, ranks));
}

void TransformerPass::see(int layer) const {
  const AttentionLayer& attention = config.attention(layer);
  const int donor = attention.donor;
  const int place = config.cache_of(donor == AttentionLayer::own ? layer : donor);
  std::size_t row = 0;
  for (std::size_t i = 0; i < scratch.caches.size(); ++i) {
    scratch.kv[i] = &scratch.caches[i]->layer<AttentionCache>(place);
    const bool last = i + 1 == scratch.caches.size();
    const int end = last ? scratch.rows() : scratch.first_rows[i + 1];
    for (; row < static_cast<std::size_t>(end); ++row) {
      const int position = scratch.positions[row];
      const int first =
          attention.chunked ? position / attention.window * attention.window : scratch.kv[i]->first_visible(position);
      scratch.visible[row] = {first, position + 1};
    }
  }
}

void TransformerPass::attend(const AttentionLayer& layer, const AttentionWeights& weights) const {
  TransformerScratch& s = scratch;
  Ranks* const ranks = s.kv.front()->ranks();
  const HeldHeads held = held_heads(layer.shape.heads, layer.shape.kv_heads, ranks);
  AttentionShape shape = layer.shape;
  shape.heads = held.heads;
  shape.kv_heads = held.kv_heads;
  if (layer.sinks) shape.sinks = weights.sinks.data() + held.first;
  const ProjectedHeads projected(layer, weights);  // the same heads, or all
  const int stride = projected.stride;
  const int first_q = (held.first - projected.held.first) * shape.head_dim;
  const int first_kv = (held.kv_first - projected.held.kv_first) * shape.head_dim;
  const int width = held.heads * value_dim(shape);
  if (ranks != nullptr) reserve_rows(s.attended_here, rows, width);
  float* const attended = (ranks != nullptr ? s.attended_here : s.attended).data();
  s.attention.reserve(shape, s.rows_max, s.positions_max);
  for (std::size_t first = 0; first < s.ranges.size();) {
    s.to_store.clear();
    s.to_attend.clear();
    const int turn = s.ranges[first].turn;
    for (; first < s.ranges.size() && s.ranges[first].turn == turn; ++first) {
      const RowRange& range = s.ranges[first];
      AttentionCache& cache = *s.kv[range.segment];
      const float* const queries = s.qkv.data() + static_cast<std::ptrdiff_t>(range.row) * stride;
      const bool tree = s.trees[range.segment];
      s.to_attend.push_back({&cache.kv(), queries + first_q, s.visible.data() + range.row, range.rows,
                             attended + static_cast<std::ptrdiff_t>(range.row) * width});
      if (layer.donor != AttentionLayer::own) {
        if (tree) s.recall(range, cache);
        continue;
      }
      const float* const keys = queries + projected.q_width + first_kv;
      const float* const values = layer.latent ? nullptr : keys + projected.kv_width;
      if (tree) cache.branch(range.position);
      const KeyValues& text = cache.claim_rows(range.position, range.rows);
      if (tree) {
        const AttentionCache::TreeRows rows_of_tree = cache.tree_rows(range.rows);
        s.to_store.push_back({&rows_of_tree.kv, rows_of_tree.first, range.rows, keys, values});
      }
      s.to_store.push_back({&text, range.position, range.rows, keys, values});
    }
    store(s.to_store, stride);
    attention(kernels, shape, s.to_attend, stride, s.attention);
  }
  if (ranks != nullptr) exchange_heads(layer.shape, *ranks, rows, attended, s.attended.data());
}

void TransformerScratch::recall(const RowRange& range, AttentionCache& cache) const {
  const auto segment = static_cast<std::size_t>(range.segment);
  const int end = segment + 1 < first_rows.size() ? first_rows[segment + 1] : rows();
  const int first = cache.rows_of_tree() - (end - first_rows[segment]);  // the rows of earlier passes
  if (range.turn == 0) cache.recall(0, first);
  cache.recall(first + range.row - first_rows[segment], range.rows);
}

void TransformerPass::project_attended(const AttentionWeights& weights) const {
  project_attended(weights, scratch.attended.data());
}

void TransformerPass::project_attended(const AttentionWeights& weights, float* attended) const {
  TransformerScratch& s = scratch;
  normalize_each(kernels, weights.sub_norm, config.epsilon, rows, attended);
  pack_activations(kernels, weights.output, attended, weights.output.inputs(), rows, s.activations);
  matmul(kernels, weights.output, s.activations, s.projected.data(), config.hidden);
  add_bias(kernels, weights.output_bias, rows, s.projected.data());
}

void TransformerPass::self_attention(int layer, const AttentionWeights& weights) const {
  const AttentionLayer& attention = config.attention(layer);
  see(layer);
  project(attention, weights);
  attend(attention, weights);
  project_attended(weights);
}

void TransformerPass::mlp(const MlpWeights& weights) const {
  mlp(weights, scratch.normed.data(), rows, scratch.projected.data());
}

namespace {

/// out [rows][width] = max(gate, 0)^2 * up, of the columns [begin, end), as the kernels' gates have it.
void relu2_multiply(const float* gate_up, int rows, int width, int begin, int end, float* out) {
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    const float* const gate = gate_up + row * 2 * width;
    for (int i = begin; i < end; ++i) {
      const float positive = gate[i] < 0 ? 0 : gate[i];  // a NaN stays
      out[row * width + i] = positive * positive * gate[width + i];
    }
  }
}

float xielu(const Xielu& of, double x) {
  if (x > 0) return static_cast<float>(of.positive * x * x + of.beta * x);
  return static_cast<float>((exp64(std::min(x, of.epsilon)) - 1 - x) * of.negative + of.beta * x);
}

/// The same with xIELU.
void xielu_multiply(const Xielu& of, const float* gate_up, int rows, int width, int begin, int end, float* out) {
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    const float* const gate = gate_up + row * 2 * width;
    for (int i = begin; i < end; ++i) out[row * width + i] = xielu(of, gate[i]) * gate[width + i];
  }
}

/// Subtracts the mean and `deviations` standard deviations of the gates of each row; none falls below 0.
void cut_gates(double deviations, int rows, int width, float* gate_up) {
  for_rows(rows, 8.0 * rows * width, [&](int begin, int end) {
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      const std::span<float> gates(gate_up + row * 2 * width, static_cast<std::size_t>(width));
      double sum = 0;
      for (const float gate : gates) sum += gate;
      const double mean = sum / width;
      double squares = 0;
      for (const float gate : gates) squares += (gate - mean) * (gate - mean);
      const auto cutoff = static_cast<float>(mean + std::sqrt(squares / width) * deviations);
      for (float& gate : gates) gate = std::isnan(gate) ? gate : std::max(gate - cutoff, 0.0F);
    }
  });
}

/// gates [rows][width] *= scale
void scale_gates(float scale, int rows, int width, float* gate_up) {
  for_rows(rows, 1.0 * rows * width, [=](int begin, int end) {
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      for (float& gate : std::span(gate_up + row * 2 * width, static_cast<std::size_t>(width))) gate *= scale;
    }
  });
}

/// Adds the biases to gates, and makes all ups 1: what an MLP without a gate has in their place.
void complete_gates(const Kernels& kernels, const std::vector<float>& bias, int rows, int width, float* gate_up) {
  for_rows(rows, 2.0 * rows * width, [&](int begin, int end) {
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      float* const gates = gate_up + row * 2 * width;
      if (!bias.empty()) kernels.add(bias.data(), bias.size(), gates);
      std::fill_n(gates + width, width, 1.0F);
    }
  });
}

/// Makes gates alpha * g and ups (u + 1) / alpha, of which SwiGLU is the clamped one (ClampedSwiglu). A NaN stays.
void clamp_gates(const ClampedSwiglu& swiglu, int rows, int width, float* gate_up) {
  const auto [alpha, limit] = swiglu;
  for_rows(rows, 4.0 * rows * width, [=](int begin, int end) {
    for (std::ptrdiff_t row = begin; row < end; ++row) {
      float* const gates = gate_up + row * 2 * width;
      float* const ups = gates + width;
      for (int i = 0; i < width; ++i) {
        gates[i] = alpha * (gates[i] > limit ? limit : gates[i]);
        ups[i] = ((ups[i] > limit ? limit : ups[i] < -limit ? -limit : ups[i]) + 1) / alpha;
      }
    }
  });
}

/// to [rows][width] = the gated rows of all ranks, of which this one has `own`.
void exchange_gates(Ranks& ranks, int width, int rows, const float* own, float* to) {
  const HeldRange here(width, &ranks);
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    std::copy_n(own + row * here.count, here.count, to + row * width + here.first);
  }
  ranks.exchange(to, sizeof(float), rows, width, bounds_of(width, ranks));
}

/// gate_up = gates and ups of the inputs of `down` that are here, as the activation reads them.
void project_gates(const TransformerPass& pass, const MlpWeights& weights, const float* x, int count) {
  const Kernels& kernels = pass.kernels;
  const TransformerConfig& config = pass.config;
  TransformerScratch& s = pass.scratch;
  const int intermediate = HeldRange(weights.intermediate(), weights.ranks).count;
  pack_activations(kernels, weights.gate_up, x, weights.gate_up.inputs(), count, s.activations);
  matmul(kernels, weights.gate_up, s.activations, s.gate_up.data(), 2 * intermediate);
  const bool gated = weights.gate_up.outputs() != intermediate;
  if (gated) add_bias(kernels, weights.gate_up_bias, count, s.gate_up.data());
  else complete_gates(kernels, weights.gate_up_bias, count, intermediate, s.gate_up.data());
  if (weights.gate_scale != 1) scale_gates(weights.gate_scale, count, intermediate, s.gate_up.data());
  if (weights.gate_cutoff) cut_gates(*weights.gate_cutoff, count, intermediate, s.gate_up.data());
  if (config.activation == Activation::clamped_swiglu) {
    clamp_gates(config.swiglu, count, intermediate, s.gate_up.data());
  }
}

/// gated = activation(gate) * up; after(begin, end) is called when these columns are complete in all rows.
template <class After>
void activate(const TransformerPass& pass, const MlpWeights& weights, int count, const After& after) {
  const Kernels& kernels = pass.kernels;
  const TransformerConfig& config = pass.config;
  TransformerScratch& s = pass.scratch;
  const int intermediate = HeldRange(weights.intermediate(), weights.ranks).count;
  const auto gate = config.activation == Activation::gelu    ? kernels.gelu_multiply
                    : config.activation == Activation::relu2 ? relu2_multiply
                                                             : kernels.silu_multiply;
  for_inputs(intermediate, gate_work * count * intermediate, [&](int begin, int end) {
    if (config.activation == Activation::xielu) {
      xielu_multiply(weights.xielu, s.gate_up.data(), count, intermediate, begin, end, s.gated.data());
    } else {
      gate(s.gate_up.data(), count, intermediate, begin, end, s.gated.data());
    }
    after(begin, end);
  });
}

}  // namespace

void TransformerPass::gate(const MlpWeights& weights, const float* x, int count) const {
  project_gates(*this, weights, x, count);
  activate(*this, weights, count, [](int, int) {});
}

void TransformerPass::mlp(const MlpWeights& weights, const float* x, int count, float* y) const {
  TransformerScratch& s = scratch;
  const int intermediate = weights.intermediate();
  if (weights.ranks == nullptr && weights.sub_norm.empty()) {
    project_gates(*this, weights, x, count);
    s.activations.reserve(kernels, weights.down, count);
    activate(*this, weights, count,
             [&](int begin, int end) { s.activations.pack(s.gated.data(), intermediate, begin, end); });
  } else {
    gate(weights, x, count);
    float* const gated = weights.ranks == nullptr ? s.gated.data() : s.gate_up.data();
    if (weights.ranks != nullptr) exchange_gates(*weights.ranks, intermediate, count, s.gated.data(), gated);
    normalize_each(kernels, weights.sub_norm, config.epsilon, count, gated);
    pack_activations(kernels, weights.down, gated, intermediate, count, s.activations);
  }
  matmul(kernels, weights.down, s.activations, y, weights.down.outputs());
  add_bias(kernels, weights.down_bias, count, y);
}

void TransformerPass::add_projected() const { add_projected(config.residual_scale); }

void TransformerPass::add_projected(float scale) const {
  const int hidden = config.hidden;
  for_rows(rows, 2.0 * rows * hidden, [&](int begin, int end) {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(begin) * hidden;
    const std::size_t count = static_cast<std::size_t>(end - begin) * static_cast<std::size_t>(hidden);
    if (scale != 1) {
      for (float& value : std::span(scratch.projected).subspan(static_cast<std::size_t>(first), count)) {
        value *= scale;
      }
    }
    kernels.add(scratch.projected.data() + first, count, scratch.hidden_states.data() + first);
  });
}

void TransformerPass::pre_norm_attention(const AttentionLayer& layer, const PreNormLayer& weights) const {
  normalize(weights.attention_norm);
  project(layer, weights.attention);
  attend(layer, weights.attention);
  project_attended(weights.attention);
  add_projected();
}

void TransformerPass::pre_norm_layer(const AttentionLayer& layer, const PreNormLayer& weights) const {
  pre_norm_attention(layer, weights);
  normalize(weights.mlp_norm);
  mlp(weights.mlp);
  add_projected();
}

}  // namespace draftproof
