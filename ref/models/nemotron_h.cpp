// SPDX-License-Identifier: MIT
// Nemotron-H (Hugging Face `nemotron_h`; GGUF `nemotron_h`, with experts `nemotron_h_moe`): a layer is one of Mamba-2
// (state_space.h), attention without RoPE, an MLP without a gate whose activation is the square of ReLU, or a mixture
// of such MLPs with a shared one, routed as in DeepSeek V3; hybrid_override_pattern or layers_block_type says which:
// x = x + layer(norm(x)). An MTP head has two such layers, attention and experts, which are one in a GGUF. Source:
// transformers, models/nemotron_h; llama.cpp's conversion of it. transformers' form for prompts keeps steps from
// falling below time_step_min, its form for single rows does not; nor does the published code of these models, nor
// this.
#include <optional>
#include <variant>

#include "ref/models/causal_transformer.h"
#include "ref/models/experts.h"
#include "ref/models/models.h"
#include "ref/models/state_space.h"

namespace draftproof {
namespace {

constexpr int default_head_dim = 128;
constexpr TensorNames tensors = {.embedding = "model.embeddings.weight", .norm = "model.norm_f.weight"};
constexpr ExpertNames expert_names = {.shared = "shared_experts."};
constexpr StateSpaceFields fields = {.heads = "mamba_num_heads",
                                     .head_dim = "mamba_head_dim",
                                     .groups = "n_groups",
                                     .state_size = "ssm_state_size",
                                     .conv_width = "conv_kernel",
                                     .expand = nullptr,
                                     .conv_bias = "use_conv_bias",
                                     .proj_bias = "use_bias"};

class NemotronH final : public CausalTransformer {
 public:
  NemotronH(const WeightLoader& from, const TransformerConfig& description)
      : CausalTransformer(from, description, tensors) {
    for (int i = 0; i < layers(); ++i) {
      const LayerConfig& layer = config().layers[static_cast<std::size_t>(i)];
      const std::string mixer = prefix(i) + "mixer.";
      Layer& weights = layers_.emplace_back();
      weights.norm = load_norm(from, config(), prefix(i) + "norm.weight", hidden());
      if (const StateSpaceShape* const shape = find_state_space(layer)) {
        weights.part = load_state_space(from, hidden(), *shape, mixer);
      } else if (std::holds_alternative<AttentionLayer>(layer.mixer)) {
        weights.part = load_attention(from, config(), config().attention(i), mixer, hidden());
      } else if (layer.experts.count > 0) {
        weights.part = load_experts(from, hidden(), layer.experts, mixer, expert_names);
      } else {
        weights.part =
            load_plain_mlp(from, hidden(), layer.intermediate, false, mixer + "up_proj", mixer + "down_proj");
      }
    }
  }

 private:
  struct Layer {
    std::vector<float> norm;  // [hidden]
    std::variant<StateSpaceWeights, AttentionWeights, MlpWeights, ExpertsWeights> part;
  };

  void layer(const TransformerPass& pass, int i) override {
    const Layer& weights = layers_[static_cast<std::size_t>(i)];
    pass.normalize(weights.norm);
    if (const auto* const recurrent = std::get_if<StateSpaceWeights>(&weights.part)) {
      state_space(pass, i, *recurrent, state_space_);
    } else if (const auto* const attention = std::get_if<AttentionWeights>(&weights.part)) {
      pass.self_attention(i, *attention);
    } else if (const auto* const mlp = std::get_if<MlpWeights>(&weights.part)) {
      pass.mlp(*mlp);
    } else {
      const Experts& experts = config().layers[static_cast<std::size_t>(i)].experts;
      mix_experts(pass, experts, std::get<ExpertsWeights>(weights.part), experts_);
    }
    pass.add_projected();
  }

  std::vector<Layer> layers_;
  StateSpaceScratch state_space_;
  ExpertsScratch experts_;
};

class NemotronHBlock final : public MtpBlock {
 public:
  NemotronHBlock(const WeightLoader& from, const TransformerConfig& config, int layer, const std::string& prefix) {
    const bool apart = prefix == attention_of_head;  // as in folders
    const std::string experts = apart ? experts_of_head : prefix;
    const std::string experts_norm = experts + (apart ? "norm.weight" : "post_attention_layernorm.weight");
    attention_norm_ = load_norm(from, config, prefix + "norm.weight", config.hidden);
    attention_ = load_attention(from, config, config.attention(layer), prefix + "mixer.", config.hidden);
    experts_norm_ = load_norm(from, config, experts_norm, config.hidden);
    experts_ = load_experts(from, config.hidden, config.layers[static_cast<std::size_t>(layer)].experts,
                            experts + "mixer.", expert_names);
  }

  void compute(const TransformerPass& pass, int layer) override {
    const AttentionLayer& attention = pass.config.attention(layer);
    pass.normalize(attention_norm_);
    pass.project(attention, attention_);
    pass.attend(attention, attention_);
    pass.project_attended(attention_);
    pass.add_projected();
    pass.normalize(experts_norm_);
    mix_experts(pass, pass.config.layers[static_cast<std::size_t>(layer)].experts, experts_, scratch_);
    pass.add_projected();
  }

 private:
  static constexpr const char* attention_of_head = "mtp.layers.0.";
  static constexpr const char* experts_of_head = "mtp.layers.1.";

  std::vector<float> attention_norm_, experts_norm_;
  AttentionWeights attention_;
  ExpertsWeights experts_;
  ExpertsScratch scratch_;
};

enum class Part : std::uint8_t { state_space, attention, mlp, experts };

/// What layers are: a string of letters, or a list of words.
std::vector<Part> parts_named_by(const Json& named) {
  struct Spelling {
    Part part;
    std::string_view letter;
    std::string_view word;
    std::string_view older;
  };
  constexpr Spelling spellings[] = {{Part::state_space, "M", "linear_attention", "mamba"},
                                    {Part::attention, "*", "full_attention", "attention"},
                                    {Part::mlp, "-", "mlp", "mlp"},
                                    {Part::experts, "E", "moe", "moe"}};
  std::vector<Part> parts;
  const auto add = [&](std::string_view name, const Json& named_by) {
    for (const auto& [part, letter, word, older] : spellings) {
      if (name != letter && name != word && name != older) continue;
      parts.push_back(part);
      return;
    }
    named_by.fail("layer type '" + std::string(name) + "' is not part of this architecture");
  };
  if (!named.is_array()) {
    for (const char& letter : named.string()) add({&letter, 1}, named);
  } else {
    for (std::size_t i = 0; i < named.size(); ++i) add(named[i].string(), named[i]);
  }
  constexpr std::size_t layers_max = 1 << 10;
  if (parts.empty() || parts.size() > layers_max) named.fail("must name between 1 and 1024 layers");
  return parts;
}

std::vector<Part> read_parts(const Json& config) {
  const auto pattern = config.find("hybrid_override_pattern");
  const Json named = pattern ? *pattern : config.at("layers_block_type");
  const std::vector<Part> parts = parts_named_by(named);
  if (const auto count = config.find("num_hidden_layers")) {
    const auto stated = static_cast<std::size_t>(count->integer(1, 1 << 10));
    if (stated != parts.size()) {
      named.fail("must name one type for each of the " + std::to_string(stated) + " layers");
    }
  }
  return parts;
}

Experts read_mixture(const Json& config) {
  Experts experts = read_experts(config, "moe_intermediate_size", {.count = "n_routed_experts"});
  if (config.find("moe_latent_size")) experts.latent = positive(config, "moe_latent_size");
  read_grouped_router(config, experts);
  experts.shared = positive(config, "moe_shared_expert_intermediate_size");
  experts.gated = false;
  return experts;
}

AttentionLayer read_attention(const Json& json, int hidden) {
  const auto older = json.find("attention_head_dim");
  const int head_dim = older && !json.find("head_dim") ? positive(json, "attention_head_dim") : default_head_dim;
  return {.shape = read_attention_shape(json, hidden, {.head_dim = head_dim}), .rope = AttentionLayer::no_rope};
}

TransformerConfig describe_model(const Json& json) {
  const std::vector<Part> parts = read_parts(json);
  TransformerConfig config = read_sizes(
      json, {.layers = static_cast<int>(parts.size()), .epsilon = 1e-5, .epsilon_field = "layer_norm_epsilon"});
  config.unused.emplace_back("mtp.");
  for (const char* field : {"attention_bias", "mlp_bias", "mamba_proj_bias"}) {
    refuse_if_set(json, field, "biased projections are not implemented");
  }
  refuse_if_set(json, "sliding_window", "a window is not implemented");
  require_activation(json, "mlp_hidden_act", "relu2");
  require_activation(json, "mamba_hidden_act", "silu");
  config.activation = Activation::relu2;
  const AttentionLayer attention = read_attention(json, config.hidden);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    layer.gated = false;
    layer.mixer = NoMixer();
    if (parts[i] == Part::state_space) layer.mixer = read_state_space(json, config.hidden, fields);
    if (parts[i] == Part::attention) layer.mixer = attention;
    if (parts[i] == Part::mlp) layer.intermediate = positive(json, "intermediate_size");
    if (parts[i] == Part::experts) layer.experts = read_mixture(json);
  }
  return config;
}

TransformerConfig describe_block(const Checkpoint& files, const TransformerConfig& model) {
  const Json& json = files.config();
  if (model.mtp_heads > 1) json.at("num_nextn_predict_layers").fail("must be 1; several heads are not implemented");
  const auto pattern = json.find("mtp_hybrid_override_pattern");
  const auto named = pattern ? pattern : json.find("mtp_layers_block_type");
  if (named && parts_named_by(*named) != std::vector{Part::attention, Part::experts}) {
    named->fail("must name attention, then experts; other MTP heads are not implemented");
  }
  TransformerConfig config = model;
  LayerConfig layer;
  layer.gated = false;
  layer.mixer = read_attention(json, model.hidden);
  layer.experts = read_mixture(json);
  config.layers = {layer};
  return config;
}

std::unique_ptr<MtpBlock> load_block(const WeightLoader& from, const TransformerConfig& config, int layer,
                                     const std::string& prefix) {
  return std::make_unique<NemotronHBlock>(from, config, layer, prefix);
}

constexpr MtpBlocks blocks = {describe_block, load_block};

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return std::make_unique<NemotronH>(from, config);
}

constexpr ArchitectureName names[] = {{"nemotron_h", "NemotronHForCausalLM"}};

}  // namespace

const Architecture nemotron_h_architecture = {.names = names, .describe = describe_model, .load = load, .mtp = &blocks};

}  // namespace draftproof
