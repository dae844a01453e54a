// SPDX-License-Identifier: MIT
#include "ref/models/transformer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math64.h"
#include "kernels/packed_activations.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/formats/printable.h"

namespace draftproof {

static_assert(AttentionCache::block == lanes, "kernels and caches must agree on the block of positions");

namespace {

constexpr int size_max = 1 << 24;   // no width of a real checkpoint comes near it
constexpr int layers_max = 1 << 10;  // nor any number of layers
constexpr double default_rope_theta = 10000;  // transformers' of Llama, Qwen2 and Qwen3; Llama 2 was published without
constexpr int default_max_window_layers = 28;  // transformers' Qwen3Config: so many layers see everything

int positive(const Json& config, std::string_view field) {
  return static_cast<int>(config.at(field).integer(1, size_max));
}

void refuse_if_set(const Json& config, std::string_view field, const std::string& why) {
  const auto value = config.find(field);
  if (!value) return;
  if (value->is_boolean() && !value->boolean()) return;
  value->fail(why);
}

void refuse_partial_rotary(const Json& block) {
  const auto factor = block.find("partial_rotary_factor");
  if (factor && factor->number() != 1) factor->fail("partial rotary embedding is not implemented");
}

Llama3Rope read_llama3_rope(const Json& block) {
  const auto positive_float = [&block](const char* field) {
    const Json value = block.at(field);
    const auto number = static_cast<float>(value.number());
    if (!(number > 0 && number <= std::numeric_limits<float>::max())) value.fail("must be a positive float");
    return number;
  };
  const Llama3Rope result = {positive_float("factor"), positive_float("low_freq_factor"),
                             positive_float("high_freq_factor"), positive_float("original_max_position_embeddings")};
  if (!(result.high_factor > result.low_factor)) {
    block.at("high_freq_factor").fail("must be above low_freq_factor; between the two frequencies go over");
  }
  return result;
}

/// Fills rope_theta and rope_scaling. Both blocks are published, some with `type` and some with `rope_type`.
void read_rope(const Json& config, TransformerConfig& result) {
  std::optional<Json> theta = config.find("rope_theta");
  std::optional<std::string> kind;
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const auto block = config.find(field);
    if (!block) continue;
    if (!block->is_object()) block->fail("must be an object");
    for (const char* type : {"type", "rope_type"}) {
      const auto named = block->find(type);
      if (!named) continue;
      const bool linear_by_1 = named->string() == "linear" && block->at("factor").number() == 1;
      if (named->string() != "default" && named->string() != "llama3" && !linear_by_1) {
        named->fail("rope type " + in_quotes(named->string()) +
                    " is not implemented; only 'default' and 'llama3' are, and 'linear' by 1");
      }
      if (kind && *kind != named->string()) named->fail("differs from another rope type of this config, " + *kind);
      kind = named->string();
      if (kind == "llama3") result.rope_scaling = read_llama3_rope(*block);
    }
    refuse_partial_rotary(*block);
    if (const auto nested = block->find("rope_theta")) {
      if (theta && theta->number() != nested->number()) nested->fail("differs from another rope_theta of this config");
      theta = nested;
    } else if (block->find("full_attention") || block->find("sliding_attention")) {
      block->fail("one RoPE per layer type is not implemented");
    }
  }
  result.rope_theta = theta ? theta->number() : default_rope_theta;
  if (!(result.rope_theta > 1 && result.rope_theta < 1e12)) theta->fail("must lie between 1 and 1e12");
}

std::vector<int> read_windows(const Json& config, int layers) {
  std::vector<int> windows(static_cast<std::size_t>(layers), AttentionCache::everything);
  const auto use = config.find("use_sliding_window");
  const auto width = config.find("sliding_window");
  const auto sliding = [&](const Json& asked_by) {
    if (!width) asked_by.fail("asks for sliding attention, but sliding_window is absent");
    return static_cast<int>(std::min<std::int64_t>(width->integer(1, std::int64_t{1} << 40), size_max));
  };
  if (const auto types = config.find("layer_types")) {
    if (!types->is_array() || types->size() != windows.size()) {
      types->fail("must list one type for each of the " + std::to_string(layers) + " layers");
    }
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const Json type = (*types)[i];
      if (type.string() == "sliding_attention") {
        if (use && !use->boolean()) type.fail("is sliding_attention, but use_sliding_window is false");
        windows[i] = sliding(type);
      } else if (type.string() != "full_attention") {
        type.fail("layer type '" + type.string() + "' is not implemented");
      }
    }
  } else if (use && use->boolean()) {
    const auto first = config.find("max_window_layers");
    const int from = first ? static_cast<int>(first->integer(0, size_max)) : default_max_window_layers;
    for (int i = from; i < layers; ++i) windows[i] = sliding(*use);
  }
  return windows;
}

constexpr double silu_work = 16;  // multiplications that one element of SwiGLU costs about as much as

/// normed = norm(stream) * weight
void norm_rows(const TransformerPass& pass, const std::vector<float>& weight) {
  const int hidden = pass.config.hidden;
  for_rows(pass.rows, 4.0 * pass.rows * hidden, [&](int begin, int end) {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(begin) * hidden;
    pass.kernels.rms_norm(pass.scratch.hidden_states.data() + first, hidden, end - begin, 1, hidden, weight.data(),
                          pass.config.epsilon, pass.scratch.normed.data() + first, hidden);
  });
}

void add_to_hidden(const TransformerPass& pass) {
  const int hidden = pass.config.hidden;
  for_rows(pass.rows, 2.0 * pass.rows * hidden, [&](int begin, int end) {
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(begin) * hidden;
    const std::size_t count = static_cast<std::size_t>(end - begin) * hidden;
    pass.kernels.add(pass.scratch.projected.data() + first, count, pass.scratch.hidden_states.data() + first);
  });
}

}  // namespace

AttentionShape TransformerConfig::attention_shape() const {
  return {heads, kv_heads, head_dim, 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

TransformerConfig read_transformer_config(const Json& config, std::optional<int> vocabulary) {
  if (!config.is_object()) config.fail("must be a JSON object");
  TransformerConfig result;
  const bool told = config.find("vocab_size") || !vocabulary;
  result.vocabulary = told ? positive(config, "vocab_size") : *vocabulary;
  result.hidden = positive(config, "hidden_size");
  result.layers = static_cast<int>(config.at("num_hidden_layers").integer(1, layers_max));
  result.heads = positive(config, "num_attention_heads");
  result.kv_heads = config.find("num_key_value_heads") ? positive(config, "num_key_value_heads") : result.heads;
  result.intermediate = positive(config, "intermediate_size");
  result.context = positive(config, "max_position_embeddings");
  if (result.heads % result.kv_heads != 0) {
    config.at("num_key_value_heads").fail("must divide the number of heads, " + std::to_string(result.heads));
  }
  if (config.find("head_dim")) {
    result.head_dim = positive(config, "head_dim");
  } else {
    if (result.hidden % result.heads != 0)
      config.fail("hidden_size is no multiple of num_attention_heads; set head_dim");
    result.head_dim = result.hidden / result.heads;
  }
  if (result.head_dim % 2 != 0) {
    const std::string size = std::to_string(result.head_dim);
    config.find("head_dim")
        .value_or(config.at("hidden_size"))
        .fail("makes heads of " + size + " values, but the number must be even; RoPE turns pairs");
  }
  if (static_cast<std::int64_t>(result.heads) * result.head_dim > size_max) {
    config.at("num_attention_heads").fail("makes all heads together larger than any real model's");
  }
  result.epsilon = static_cast<float>(config.at("rms_norm_eps").number());
  if (!(result.epsilon > 0 && result.epsilon < 1)) {  // as a float: 1e-60 would be 0, and a row of zeros NaN
    config.at("rms_norm_eps").fail("must lie between 0 and 1 as a float");
  }
  if (const Json act = config.at("hidden_act"); act.string() != "silu") {
    act.fail("activation '" + act.string() + "' is not implemented; only 'silu' is");
  }
  read_rope(config, result);
  result.windows = read_windows(config, result.layers);
  refuse_partial_rotary(config);
  refuse_if_set(config, "attention_bias", "biased projections are not implemented");
  refuse_if_set(config, "mlp_bias", "biased projections are not implemented");
  refuse_if_set(config, "quantization_config", "quantized checkpoints are not implemented");
  refuse_if_set(config, "rope_interleaved", "interleaved RoPE is not implemented");
  for (const char* field : {"rope_is_neox_style", "is_neox_style"}) {
    if (const auto neox = config.find(field); neox && !neox->boolean())
      neox->fail("interleaved RoPE is not implemented");
  }
  for (const char* field : {"logit_scale", "residual_multiplier", "embedding_multiplier", "attention_multiplier"}) {
    if (const auto factor = config.find(field); factor && factor->number() != 1) factor->fail("is not implemented");
  }
  return result;
}

Rope::Rope(const TransformerConfig& config) {
  for (int j = 0; j < config.head_dim / 2; ++j) {
    frequencies_.push_back(static_cast<float>(1.0 / power64(config.rope_theta, 2.0 * j / config.head_dim)));
  }
  if (!config.rope_scaling) return;
  const Llama3Rope& scaling = *config.rope_scaling;
  constexpr float turn = 6.28318530717958647693F;
  for (float& frequency : frequencies_) {
    const float wavelength = turn / frequency;
    if (wavelength < scaling.original_context / scaling.high_factor) continue;
    if (wavelength > scaling.original_context / scaling.low_factor) {
      frequency = frequency / scaling.factor;
      continue;
    }
    const float kept =
        (scaling.original_context / wavelength - scaling.low_factor) / (scaling.high_factor - scaling.low_factor);
    frequency = (1 - kept) * frequency / scaling.factor + kept * frequency;
  }
}

void Rope::stretch(std::span<const float> by) {
  REQUIRE(by.size() == frequencies_.size(), "a head has so many pairs");
  for (std::size_t j = 0; j < by.size(); ++j) frequencies_[j] /= by[j];
}

void Rope::angles(std::span<const int> positions, std::vector<float>& cosine, std::vector<float>& sine) const {
  cosine.resize(positions.size() * frequencies_.size());
  sine.resize(cosine.size());
  std::size_t at = 0;
  for (const int position : positions) {
    for (const float frequency : frequencies_) {
      const double angle = static_cast<float>(position) * frequency;
      cosine[at] = static_cast<float>(cos64(angle));
      sine[at] = static_cast<float>(sin64(angle));
      ++at;
    }
  }
}

AttentionCache::TurnBack Rope::turn_back(const Kernels& kernels, int head_dim) const {
  return [rope = *this, &kernels, head_dim](float* keys, int count, int positions) {
    std::vector<float> cosine;
    std::vector<float> sine;
    const int back = -positions;
    rope.angles(std::span(&back, 1), cosine, sine);
    // One row with `count` heads, because all keys turn by the same angles.
    kernels.rope(keys, 0, 1, count, head_dim, head_dim / 2, cosine.data(), sine.data());
  };
}

void refuse_other_tensors(const Checkpoint& weights, const TransformerConfig& config, const std::string& layers_prefix,
                          std::span<const char* const> also_in_layers, std::set<std::string> known) {
  for (int i = 0; i < config.layers; ++i) {
    const std::string prefix = layers_prefix + std::to_string(i) + ".";
    for (const char* name : layer_weight_names) known.insert(prefix + name);
    for (const char* name : also_in_layers) known.insert(prefix + name);
  }
  for (const auto& [name, tensor] : weights.tensors()) {
    if (known.contains(name) || name.ends_with("rotary_emb.inv_freq")) continue;  // old exports store the frequencies
    throw Error(weights.path().string() + ": tensor " + tensor.name +
                " is not part of the architecture as implemented; ignoring it would compute something else");
  }
}

TransformerLayer load_transformer_layer(const WeightLoader& from, const TransformerConfig& config,
                                        const std::string& prefix) {
  const int q = config.heads * config.head_dim;
  const int kv = config.kv_heads * config.head_dim;
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  TransformerLayer layer;
  layer.qkv = load_matrix(
      from, {{attention + "q_proj.weight", q}, {attention + "k_proj.weight", kv}, {attention + "v_proj.weight", kv}},
      config.hidden);
  layer.output = load_matrix(from, {{attention + "o_proj.weight", config.hidden}}, q);
  layer.gate_up = load_matrix(
      from, {{mlp + "gate_proj.weight", config.intermediate}, {mlp + "up_proj.weight", config.intermediate}},
      config.hidden);
  layer.down = load_matrix(from, {{mlp + "down_proj.weight", config.hidden}}, config.intermediate);
  layer.input_norm = from.weights.floats(prefix + "input_layernorm.weight", {config.hidden});
  layer.attention_norm = from.weights.floats(prefix + "post_attention_layernorm.weight", {config.hidden});
  return layer;
}

HeadNorms load_head_norms(const Checkpoint& weights, const TransformerConfig& config, const std::string& prefix) {
  return {weights.floats(prefix + head_norm_names[0], {config.head_dim}),
          weights.floats(prefix + head_norm_names[1], {config.head_dim})};
}

std::size_t TransformerScratch::bytes_per_row(const TransformerConfig& config) noexcept {
  const int q = config.heads * config.head_dim;
  const int kv = config.kv_heads * config.head_dim;
  const int widths = 3 * config.hidden + 2 * q + 2 * kv + 3 * config.intermediate + config.head_dim;
  return sizeof(float) * static_cast<std::size_t>(widths);
}

Placement placement_of(const Segment& segment) {
  const Cache& cache = *segment.cache;
  return {.rows = segment.rows(),
          .position = segment.depths.empty() ? cache.end() : cache.length(),
          .capacity = cache.capacity(),
          .depths = segment.depths};
}

void TransformerScratch::lay_out(const TransformerConfig& config, std::span<const Placement> segments) {
  first_rows.clear();
  positions.clear();
  ranges.clear();
  trees.clear();
  int most_rows = 0;
  int most_positions = 0;
  for (const Placement& segment : segments) {
    first_rows.push_back(rows());
    trees.push_back(!segment.depths.empty());
    most_rows = std::max(most_rows, segment.rows);
    most_positions = std::max(most_positions, segment.capacity);
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

  const auto sized = [this](std::vector<float>& buffer, int width) {
    const std::size_t size = positions.size() * static_cast<std::size_t>(width);
    if (buffer.size() < size) buffer.resize(size);
  };
  const int q = config.heads * config.head_dim;
  sized(hidden_states, config.hidden);
  sized(normed, config.hidden);
  sized(qkv, q + 2 * config.kv_heads * config.head_dim);
  sized(attended, q);
  sized(projected, config.hidden);
  sized(gate_up, 2 * config.intermediate);
  sized(gated, config.intermediate);
  attention.reserve(config.attention_shape(), most_rows, most_positions);
  visible.resize(positions.size());
  kv.resize(segments.size());
}

void TransformerPass::project(const TransformerLayer& layer) const {
  TransformerScratch& s = scratch;
  norm_rows(*this, layer.input_norm);
  pack_activations(kernels, layer.qkv, s.normed.data(), config.hidden, rows, s.activations);
  matmul(kernels, layer.qkv, s.activations, s.qkv.data(), qkv_width());
}

void TransformerPass::apply_rope(int begin, int end) const {
  const int half = config.head_dim / 2;
  const float* const cosine = scratch.cosine.data() + static_cast<std::ptrdiff_t>(begin) * half;
  const float* const sine = scratch.sine.data() + static_cast<std::ptrdiff_t>(begin) * half;
  kernels.rope(q(begin), qkv_width(), end - begin, config.heads, config.head_dim, half, cosine, sine);
  kernels.rope(k(begin), qkv_width(), end - begin, config.kv_heads, config.head_dim, half, cosine, sine);
}

void TransformerPass::attend() const {
  TransformerScratch& s = scratch;
  for (std::size_t first = 0; first < s.ranges.size();) {
    s.to_store.clear();
    s.to_attend.clear();
    const int turn = s.ranges[first].turn;
    for (; first < s.ranges.size() && s.ranges[first].turn == turn; ++first) {
      const RowRange& range = s.ranges[first];
      AttentionCache& cache = *s.kv[range.segment];
      const float* const keys = k(range.row);
      const float* const values = keys + kv_width();
      const bool tree = s.trees[range.segment];
      if (tree) cache.branch(range.position);
      const KeyValues& text = cache.claim_rows(range.position, range.rows);
      if (tree) {
        const AttentionCache::TreeRows rows_of_tree = cache.tree_rows(range.rows);
        s.to_store.push_back({&rows_of_tree.kv, rows_of_tree.first, range.rows, keys, values});
      }
      s.to_store.push_back({&text, range.position, range.rows, keys, values});
      s.to_attend.push_back({&cache.kv(), q(range.row), s.visible.data() + range.row, range.rows,
                             s.attended.data() + static_cast<std::ptrdiff_t>(range.row) * q_width()});
    }
    store(s.to_store, qkv_width());
    attention(kernels, config.attention_shape(), s.to_attend, qkv_width(), s.attention);
  }
}

void TransformerPass::attention_and_mlp(const TransformerLayer& layer) const {
  TransformerScratch& s = scratch;
  attend();
  pack_activations(kernels, layer.output, s.attended.data(), q_width(), rows, s.activations);
  matmul(kernels, layer.output, s.activations, s.projected.data(), config.hidden);
  add_to_hidden(*this);

  norm_rows(*this, layer.attention_norm);
  pack_activations(kernels, layer.gate_up, s.normed.data(), config.hidden, rows, s.activations);
  matmul(kernels, layer.gate_up, s.activations, s.gate_up.data(), 2 * config.intermediate);
  s.activations.reserve(kernels, layer.down, rows);
  for_inputs(config.intermediate, silu_work * rows * config.intermediate, [&](int begin, int end) {
    kernels.silu_multiply(s.gate_up.data(), rows, config.intermediate, begin, end, s.gated.data());
    s.activations.pack(s.gated.data(), config.intermediate, begin, end);
  });
  matmul(kernels, layer.down, s.activations, s.projected.data(), config.hidden);
  add_to_hidden(*this);
}

void qk_norm_and_rope(const TransformerPass& pass, const HeadNorms& norms) {
  const TransformerConfig& c = pass.config;
  for_rows(pass.rows, pass.qk_work(), [&](int begin, int end) {
    const int stride = pass.qkv_width();
    pass.kernels.rms_norm(pass.q(begin), stride, end - begin, c.heads, c.head_dim, norms.q.data(), c.epsilon,
                          pass.q(begin), stride);
    pass.kernels.rms_norm(pass.k(begin), stride, end - begin, c.kv_heads, c.head_dim, norms.k.data(), c.epsilon,
                          pass.k(begin), stride);
    pass.apply_rope(begin, end);
  });
}

}  // namespace draftproof
