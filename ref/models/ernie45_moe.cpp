// SPDX-License-Identifier: MIT
// ERNIE 4.5 with experts (Hugging Face `ernie4_5_moe`): some layers have experts, chosen by the softmax of their logits
// plus a bias, and a shared one without a gate; RoPE turns neighboring rows. Source: transformers, models/ernie4_5_moe.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr Defaults defaults = {.epsilon = 1e-5};
constexpr DecoderNames tensors = {
    .experts = {.choice_bias = "moe_statics.e_score_correction_bias", .shared = "shared_experts."}};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults);
  require_rope_theta(json);
  for (const char* bias : {"use_bias", "attention_bias", "mlp_bias"}) {
    refuse_if_set(json, bias, "is not implemented; ERNIE 4.5 with experts has no biases");
  }
  set_window(json, AttentionCache::everything, config);
  for (LayerConfig& layer : config.layers) std::get<AttentionLayer>(layer.mixer).interleaved = true;
  Experts experts = read_experts(json, "moe_intermediate_size", {.count = "moe_num_experts", .chosen = "moe_k"});
  experts.choice_bias = true;
  experts.normalized = true;
  const auto min = json.find("moe_norm_min");
  experts.sum_min = min ? min->number() : 1e-12;
  if (!(experts.sum_min >= 0)) min->fail("must be at least 0");
  put_shared_expert(json, "moe_num_shared_experts", 2, experts);
  const int last = config.depth() - 1;
  const auto layer_of = [&](const char* field, int default_value) {
    const auto stated = json.find(field);
    return stated ? static_cast<int>(stated->integer(-1, 1 << 10)) : default_value;
  };
  const int first = layer_of("moe_layer_start_index", 1);
  const int end = layer_of("moe_layer_end_index", -1);
  const int every = positive(json, "moe_layer_interval", 1);
  for (int i = 0; i <= last; ++i) {
    if (i < first || i > (end == -1 ? last : end) || (i + 1) % every != 0) continue;
    config.layers[static_cast<std::size_t>(i)].experts = experts;
    config.layers[static_cast<std::size_t>(i)].intermediate = 0;
  }
  config.unused.emplace_back("model.mtp_");
  return config;
}

/// The layer of an MTP head has an MLP.
TransformerConfig describe_block(const Checkpoint& files, const TransformerConfig& model) {
  TransformerConfig config = pre_norm_blocks.describe(files, model);
  config.layers[0].experts = {};
  config.layers[0].intermediate = positive(files.config(), "intermediate_size");
  return config;
}

std::unique_ptr<MtpBlock> load_block(const WeightLoader& from, const TransformerConfig& config, int layer,
                                     const std::string& prefix) {
  return pre_norm_blocks.load(from, config, layer, prefix);
}

constexpr MtpBlocks blocks = {describe_block, load_block};

std::unique_ptr<Model> load(const WeightLoader& from, const TransformerConfig& config) {
  return load_pre_norm_decoder(from, config, tensors);
}

constexpr ArchitectureName names[] = {{"ernie4_5_moe", "Ernie4_5_MoeForCausalLM"}};

}  // namespace

const Architecture ernie45_moe_architecture = {
    .names = names, .describe = describe_model, .load = load, .mtp = &blocks};

}  // namespace draftproof
