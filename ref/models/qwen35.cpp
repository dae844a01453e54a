// SPDX-License-Identifier: MIT
// Qwen3.5, 3.6 and 3.8, the text model (Hugging Face `qwen3_5` with its text_config, `qwen3_5_text`, and the same of
// `qwen3_5_moe`; GGUF `qwen35` and `qwen35moe`), and Qwen3-Next (`qwen3_next`; GGUF `qwen3next`): layers of gated delta
// net (gated_delta_net.h) and, at every full_attention_interval or as layer_types says, of gated full attention; SwiGLU
// or, in every layer, experts with a shared one (experts.h). The norms of the stream and of q and k multiply by 1 +
// weight, that of the delta net by its weight. RoPE turns the first head_dim * partial_rotary_factor dimensions of a
// head; for a text M-RoPE's three positions are one. The heads of the attention are multiplied by a gate before they
// are mixed: a / (1 + exp(-gate)).
//
// A GGUF stores 1 + weight, -exp(A_log), and, but for Qwen3-Next, value heads in an order in which head h belongs to
// key head h % key_heads; folders that MLX converted store 1 + weight. Folders of Qwen3-Next have the rows of q, k, v
// and z of each key head one after the other, and so those of b and a, which its GGUFs have, too. Tensors of vision
// stay in the file, those of MTP are for mtp.h. Source: transformers, models/qwen3_5, qwen3_5_moe and qwen3_next;
// llama.cpp's conversion of them.
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "kernels/threads.h"
#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/gated_delta_net.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr int width_max = 1 << 24;  // no width of a real checkpoint comes near it
constexpr int taps_max = 64;        // nor any convolution
constexpr double gate_work = 16;    // multiplications that one gate costs about as much as

/// q_proj has the rows of q and of the gate of each head one after the other. Loads those of all q, k, v, all gates.
AttentionWeights load_gated_attention(const WeightLoader& from, const TransformerConfig& config,
                                      const AttentionLayer& layer, const std::string& prefix) {
  const int d = layer.shape.head_dim;
  const auto halves = [&](int first) {
    std::vector<NamedMatrix> parts;
    for (int head = 0; head < layer.shape.heads; ++head) {
      parts.push_back({prefix + "q_proj.weight", d, 2 * d * head + first, {2 * layer.q_width(), config.hidden}});
    }
    return parts;
  };
  std::vector<NamedMatrix> parts = halves(0);
  parts.push_back({prefix + "k_proj.weight", layer.kv_width()});
  parts.push_back({prefix + "v_proj.weight", layer.kv_width()});
  for (NamedMatrix& gate : halves(d)) parts.push_back(std::move(gate));
  AttentionWeights weights;
  weights.qkv = load_matrix(from, parts, config.hidden);
  weights.output = load_matrix(from, {{prefix + "o_proj.weight", config.hidden}}, layer.q_width());
  load_head_norms(from, config, layer, prefix, weights);
  return weights;
}

/// How a file stores what one tensor of Hugging Face's files says otherwise.
struct StoredLayout {
  bool gains = false;  // norms hold 1 + weight
  bool rates = false;  // A_log holds -exp(A_log)
  bool dealt = false;  // value head h belongs to key head h % key_heads
  /// Of the convolution's [channels][taps].
  std::vector<std::int64_t> convolution(int channels, int taps) const {
    if (rates) return {channels, taps};
    if (gains) return {channels, taps, 1};
    return {channels, 1, taps};
  }
};

bool is_next(const Json& config) { return config.at("model_type").string() == "qwen3_next"; }

/// llama.cpp's converter has all three, but for Qwen3-Next the first two. MLX's converter moves the taps of the
/// convolution, and is known by that; it has the first.
StoredLayout layout_of(const Checkpoint& files) {
  if (files.metadata() != nullptr) return {.gains = true, .rates = true, .dealt = !is_next(files.config())};
  for (const auto& [name, tensor] : files.tensors()) {
    const bool taps = name.starts_with("model.layers.") && name.ends_with("linear_attn.conv1d.weight");
    if (taps && tensor.shape.size() == 3 && tensor.shape[1] != 1 && tensor.shape[2] == 1) return {.gains = true};
  }
  return {};
}

TransformerConfig stored_as(const StoredLayout& layout, TransformerConfig config) {
  if (layout.gains) config.norm_offset = 0;
  for (LayerConfig& layer : config.layers) {
    if (auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) shape->delta.dealt = layout.dealt;
  }
  return config;
}

/// The rows of the projections: q, k, v, z, b, a.
std::vector<NamedMatrix> projections(const WeightLoader& from, int hidden, const RecurrentShape& shape,
                                     const std::string& prefix) {
  const DeltaShape& delta = shape.delta;
  const int group = delta.value_heads / delta.key_heads;
  std::vector<NamedMatrix> rows;
  /// Of each key head `count` rows, behind `before` other ones of its `each`.
  const auto add_of_heads = [&](const std::string& name, int each, int before, int count) {
    for (int head = 0; head < delta.key_heads; ++head) {
      rows.push_back({name, count, head * each + before, {delta.key_heads * each, hidden}});
    }
  };
  const std::string qkvz = prefix + "in_proj_qkvz.weight";
  if (from.weights.has(qkvz)) {
    const int key = delta.key_dim;
    const int values = group * delta.value_dim;
    const int each = 2 * key + 2 * values;
    add_of_heads(qkvz, each, 0, key);
    add_of_heads(qkvz, each, key, key);
    add_of_heads(qkvz, each, 2 * key, values);
    add_of_heads(qkvz, each, 2 * key + values, values);
  } else {
    rows.push_back({prefix + "in_proj_qkv.weight", shape.channels()});
    rows.push_back({prefix + "in_proj_z.weight", shape.value_floats()});
  }
  const std::string ba = prefix + "in_proj_ba.weight";
  if (from.weights.has(ba)) {
    add_of_heads(ba, 2 * group, 0, group);
    add_of_heads(ba, 2 * group, group, group);
  } else {
    rows.push_back({prefix + "in_proj_b.weight", delta.value_heads});
    rows.push_back({prefix + "in_proj_a.weight", delta.value_heads});
  }
  return rows;
}

GatedDeltaNetWeights load_delta_net(const WeightLoader& from, const StoredLayout& layout, int hidden,
                                    const RecurrentShape& shape, const std::string& prefix) {
  const int heads = shape.delta.value_heads;
  const int channels = shape.channels();
  const int values = shape.value_floats();
  GatedDeltaNetWeights weights;
  weights.in = load_matrix(from, projections(from, hidden, shape, prefix), hidden);
  weights.out = load_matrix(from, {{prefix + "out_proj.weight", hidden}}, values);
  weights.convolution = taps_by_row(
      from.floats(prefix + "conv1d.weight", layout.convolution(channels, shape.conv_width)), shape.conv_width);
  const std::vector<float> a_log = from.floats(prefix + "A_log", {heads});
  if (!layout.rates) weights.rates = rates_of(a_log);
  else
    for (const float rate : a_log) weights.rates.push_back(-double{rate});
  weights.dt_bias = from.floats(prefix + "dt_bias", {heads});
  weights.norm = from.floats(prefix + "norm.weight", {shape.delta.value_dim});
  return weights;
}

/// What the layers share; memory is kept from pass to pass.
struct Qwen35Scratch {
  std::vector<RecurrentCache*> caches;  // of each segment, in the layer that is computed
  GatedDeltaNetScratch recurrent;
  ExpertsScratch experts;
};

class Qwen35Layer {
 public:
  Qwen35Layer(const WeightLoader& from, const StoredLayout& layout, const TransformerConfig& config, int i,
              const std::string& prefix) {
    const LayerConfig& layer = config.layers[static_cast<std::size_t>(i)];
    const int hidden = config.hidden;
    if (const auto* const shape = std::get_if<RecurrentShape>(&layer.mixer)) {
      mixer_ = load_delta_net(from, layout, hidden, *shape, prefix + "linear_attn.");
    } else {
      mixer_ = load_gated_attention(from, config, config.attention(i), prefix + "self_attn.");
    }
    mixer_norm_ = load_norm(from, config, prefix + "input_layernorm.weight", hidden);
    mlp_norm_ = load_norm(from, config, prefix + "post_attention_layernorm.weight", hidden);
    if (layer.experts.count == 0) mlp_ = load_mlp(from, hidden, layer.intermediate, false, prefix + "mlp.");
    else experts_ = load_experts(from, hidden, layer.experts, prefix + "mlp.");
  }

  /// Where it has attention, kv and visible are set.
  void compute(const TransformerPass& pass, int i, Qwen35Scratch& scratch) const {
    pass.normalize(mixer_norm_);
    if (const auto* const delta_net = std::get_if<GatedDeltaNetWeights>(&mixer_)) {
      recur(pass, i, *delta_net, scratch);
    } else {
      attend(pass, i, std::get<AttentionWeights>(mixer_));
    }
    pass.add_projected();
    pass.normalize(mlp_norm_);
    feed_forward(pass, i, mlp_, experts_, scratch.experts);
    pass.add_projected();
  }

 private:
  static void attend(const TransformerPass& pass, int i, const AttentionWeights& weights) {
    const AttentionLayer& layer = pass.config.attention(i);
    pass.project(layer, weights);
    pass.attend(layer, weights);
    gate(pass, layer);
    pass.project_attended(weights);
  }

  /// attended = attended / (1 + exp(-gate))
  static void gate(const TransformerPass& pass, const AttentionLayer& layer) {
    const auto width = static_cast<std::size_t>(layer.gate);
    for_rows(pass.rows, gate_work * pass.rows * layer.gate, [&](int begin, int end) {
      for (int row = begin; row < end; ++row) {
        float* const gates =
            pass.scratch.qkv.data() + std::ptrdiff_t{row} * layer.projected() + (layer.projected() - layer.gate);
        float* const attended = pass.scratch.attended.data() + std::ptrdiff_t{row} * layer.gate;
        pass.kernels.exponentials(gates, 0, -1, width, gates);
        for (std::size_t k = 0; k < width; ++k) attended[k] /= 1 + gates[k];
      }
    });
  }

  static void recur(const TransformerPass& pass, int i, const GatedDeltaNetWeights& weights, Qwen35Scratch& scratch) {
    const auto& shape = std::get<RecurrentShape>(pass.config.layers[static_cast<std::size_t>(i)].mixer);
    scratch.caches.clear();
    for (Cache* const cache : pass.scratch.caches) scratch.caches.push_back(&cache->layer<RecurrentCache>(i));
    gated_delta_net(pass.kernels, shape, weights, pass.config.epsilon, pass.scratch.normed.data(), pass.rows,
                    pass.scratch.ranges, scratch.recurrent, scratch.caches, pass.scratch.projected.data());
  }

  std::variant<AttentionWeights, GatedDeltaNetWeights> mixer_;
  std::vector<float> mixer_norm_, mlp_norm_;
  MlpWeights mlp_;
  ExpertsWeights experts_;  // instead of the MLP
};

class Qwen35 final : public CausalTransformer {
 public:
  Qwen35(const WeightLoader& from, const StoredLayout& layout, const TransformerConfig& description)
      : CausalTransformer(from, stored_as(layout, description)) {
    for (int i = 0; i < layers(); ++i) layers_.emplace_back(from, layout, config(), i, prefix(i));
  }

 private:
  void layer(const TransformerPass& pass, int i) override {
    if (std::holds_alternative<AttentionLayer>(config().layers[static_cast<std::size_t>(i)].mixer)) pass.see(i);
    layers_[static_cast<std::size_t>(i)].compute(pass, i, scratch_);
  }

  std::vector<Qwen35Layer> layers_;
  Qwen35Scratch scratch_;
};

class Qwen35Block final : public MtpBlock {
 public:
  Qwen35Block(const WeightLoader& from, const TransformerConfig& config, int layer, const std::string& prefix)
      : layer_(from, layout_of(from.weights), config, layer, prefix) {}

  void compute(const TransformerPass& pass, int layer) override { layer_.compute(pass, layer, scratch_); }

 private:
  Qwen35Layer layer_;
  Qwen35Scratch scratch_;
};

void refuse_variants(const Json& config) {
  for (const char* field : {"attention_bias", "mlp_bias"}) {
    refuse_if_set(config, field, "biased projections are not implemented");
  }
  refuse_if_set(config, "use_sliding_window", "sliding windows are not part of this architecture");
  refuse_if_set(config, "final_logit_softcapping", "soft-capped logits are not implemented");
  if (const auto gated = config.find("attn_output_gate"); gated && !gated->boolean()) {
    gated->fail("attention without a gate is not implemented");
  }
  const auto gate = config.find("output_gate_type");
  if (gate && gate->string() != "swish" && gate->string() != "silu") {
    gate->fail("gate '" + gate->string() + "' is not implemented; only 'swish' is");
  }
  config.at("hidden_act");
  require_activation(config, "hidden_act", "silu");
}

AttentionLayer read_gated_attention(const Json& config, int hidden) {
  // Transformers has numbers for them where they are missing, those of one size of the model.
  for (const char* field : {"num_key_value_heads", "head_dim"}) positive(config, field);
  AttentionLayer layer;
  layer.shape = read_attention_shape(config, hidden);
  layer.gate = layer.q_width();
  return layer;
}

RecurrentShape read_recurrent_shape(const Json& config) {
  RecurrentShape shape;
  DeltaShape& delta = shape.delta;
  delta.key_heads = positive(config, "linear_num_key_heads");
  delta.value_heads = positive(config, "linear_num_value_heads");
  delta.key_dim = positive(config, "linear_key_head_dim");
  delta.value_dim = positive(config, "linear_value_head_dim");
  shape.conv_width = static_cast<int>(config.at("linear_conv_kernel_dim").integer(2, taps_max));
  if (delta.value_heads % delta.key_heads != 0) {
    config.at("linear_num_key_heads")
        .fail("must divide the number of value heads, " + std::to_string(delta.value_heads));
  }
  for (const auto& [heads, dim, field] : {std::tuple(delta.key_heads, delta.key_dim, "linear_num_key_heads"),
                                          {delta.value_heads, delta.value_dim, "linear_num_value_heads"}}) {
    if (std::int64_t{heads} * dim > width_max) {
      config.at(field).fail("makes all heads together larger than any real model's");
    }
  }
  return shape;
}

/// How many dimensions of a head RoPE turns.
int read_turned(const Json& config, int head_dim) {
  std::optional<Json> factor = config.find("partial_rotary_factor");
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto block = config.find(name);
    const auto here = block && block->is_object() ? block->find("partial_rotary_factor") : std::nullopt;
    if (!here) continue;
    if (factor && factor->number() != here->number()) here->fail("differs from another partial_rotary_factor");
    factor = here;
  }
  const double part = factor ? factor->number() : 0.25;  // transformers' default
  if (!(part > 0 && part <= 1)) factor->fail("must lie above 0 and not above 1");
  const int turned = static_cast<int>(head_dim * part);
  if (turned < 2 || turned % 2 != 0) {
    factor.value_or(config.at("head_dim"))
        .fail("makes RoPE turn " + std::to_string(turned) + " of " + std::to_string(head_dim) +
              " values of a head, but the number must be even and at least 2");
  }
  return turned;
}

/// Whether each layer has full attention; the others are recurrent.
std::vector<bool> read_kinds(const Json& config, int layers) {
  std::vector<bool> full;
  const auto types = config.find("layer_types");
  if (!types) {
    const int interval = config.find("full_attention_interval") ? positive(config, "full_attention_interval") : 4;
    for (int i = 0; i < layers; ++i) full.push_back((i + 1) % interval == 0);
    return full;
  }
  if (!types->is_array() || types->size() != static_cast<std::size_t>(layers)) {
    types->fail("must list one type for each of the " + std::to_string(layers) + " layers");
  }
  for (std::size_t i = 0; i < types->size(); ++i) {
    const Json type = (*types)[i];
    full.push_back(type.string() == "full_attention");
    if (!full.back() && type.string() != "linear_attention") {
      type.fail("layer type '" + type.string() + "' is not part of this architecture");
    }
  }
  return full;
}

TransformerConfig describe_model(const Json& whole) {
  const Json json = text_config(whole);
  TransformerConfig config = read_sizes(json);
  refuse_variants(json);
  config.norm_offset = 1;
  config.unused.insert(config.unused.end(), {"model.visual.", "mtp.", "model.mtp."});
  const AttentionLayer attention = read_gated_attention(json, config.hidden);
  const RecurrentShape recurrent = read_recurrent_shape(json);
  config.ropes = {read_rope(json, read_turned(json, attention.shape.head_dim))};
  const bool all_mix = json.at("model_type").string().starts_with("qwen3_5_moe");
  Experts experts;
  if (all_mix || is_next(json)) {
    experts = read_experts(json, "moe_intermediate_size");
    experts.normalized = all_mix || !json.find("norm_topk_prob") || read_norm_topk_prob(json);
    experts.shared = positive(json, "shared_expert_intermediate_size");
  }
  const int intermediate = all_mix ? 0 : positive(json, "intermediate_size");
  const std::vector<bool> full = read_kinds(json, config.depth());
  for (std::size_t i = 0; i < full.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    layer.intermediate = intermediate;
    if (all_mix) layer.experts = experts;
    if (full[i]) layer.mixer = attention;
    else layer.mixer = recurrent;
  }
  if (is_next(json)) put_sparse_experts(json, experts, config);
  return config;
}

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<Qwen35>(from, layout_of(from.weights), config);
}

/// Its attention is full, whatever the layers of the model are; all of them have an MLP or experts of one size.
TransformerConfig describe_block(const Checkpoint& files, const TransformerConfig& model) {
  TransformerConfig config = stored_as(layout_of(files), model);
  config.layers = {model.layers.back()};
  config.layers[0].mixer = read_gated_attention(text_config(files.config()), model.hidden);
  return config;
}

std::unique_ptr<MtpBlock> load_block(const WeightLoader& from, const TransformerConfig& config, int layer,
                                     const std::string& prefix) {
  return std::make_unique<Qwen35Block>(from, config, layer, prefix);
}

constexpr MtpBlocks blocks = {describe_block, load_block};

constexpr ArchitectureName names[] = {
    {"qwen3_5", "Qwen3_5ForConditionalGeneration"},
    {"qwen3_5_text", "Qwen3_5ForCausalLM"},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration"},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"},
    {"qwen3_next", "Qwen3NextForCausalLM"},
};

}  // namespace

const Architecture qwen35_architecture = {.names = names, .describe = describe_model, .load = load, .mtp = &blocks};

}  // namespace draftproof
