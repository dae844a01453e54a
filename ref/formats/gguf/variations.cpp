// SPDX-License-Identifier: MIT
// Families that are variations of Llama: SmolLM3, Phi-3, Granite, Qwen2-MoE, OLMoE, OLMo 2 and 3, EXAONE 4, GLM-4,
// Cohere 2, Seed-OSS, ERNIE 4.5, StableLM, Arcee, StarCoder 2.
#include <nlohmann/json.hpp>
#include <string>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufNames in_pairs = {.whole = transformer_whole, .layer = transformer_layer, .pairs_rows = true};
constexpr GgufNames plain = {.whole = transformer_whole, .layer = transformer_layer};

/// Throws Error unless the layers that turn q and k are those that llama.cpp turns: `turned(i)`.
template <class Turned>
void require_turned(const GgufModel& model, const GgufKeyWriter& keys, const char* field, const Turned& turned) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (model.layers[i].attention->turned != turned(i)) {
      model.config.find(field)
          .value_or(model.config)
          .fail("leaves RoPE to other layers than a GGUF of " + keys.architecture());
    }
  }
}

/// Adds the window and which layers have it.
void write_windows(const GgufModel& model, GgufKeyWriter& keys) {
  for (const GgufModel::Layer& layer : model.layers) {
    if (!layer.slides()) continue;
    keys.size("attention.sliding_window", layer.attention->window);
    write_sliding_layers(model, keys);
    return;
  }
}

constexpr std::string_view window_keys[] = {"attention.sliding_window", "attention.sliding_window_pattern",
                                            "rope.freq_base_swa"};

void put_windows(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  const auto window = keys.find_integer("attention.sliding_window");
  if (!window || *window == 0) return;
  config["sliding_window"] = *window;
  put_sliding_layers(keys, config);
  const auto own = keys.find_number("rope.freq_base_swa");
  if (own && *own != config["rope_theta"].get<double>()) {
    keys.fail("rope.freq_base_swa", "is not implemented; sliding layers have the base of full ones");
  }
}

// SmolLM3. llama.cpp turns q and k in all but every fourth layer.

Json read_smollm3(const Gguf& file) { return read_gguf_target(file, {"smollm3", "SmolLM3ForCausalLM"}); }

void write_smollm3(const GgufModel& model, GgufKeyWriter& keys) {
  require_turned(model, keys, "no_rope_layers", [](std::size_t i) { return (i + 1) % 4 != 0; });
  write_plain_transformer(model, keys);
}

constexpr const char* smollm3_types[] = {"smollm3"};

// Phi-3. A window of 0 means that there is none.

constexpr GgufName phi3_layer[] = {{"attn_norm", "input_layernorm"},    {"attn_qkv", "self_attn.qkv_proj"},
                                   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
                                   {"ffn_up", "mlp.gate_up_proj"},      {"ffn_down", "mlp.down_proj"}};
constexpr auto phi3_whole =
    joined({{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}},
           {{"rope_factors_long", "rope_factors_long"}, {"rope_factors_short", "rope_factors_short"}});
constexpr GgufNames phi3_names = {.whole = phi3_whole, .layer = phi3_layer};

Json read_phi3(const Gguf& file) {
  return read_gguf_target(file, {"phi3", "Phi3ForCausalLM", window_keys, {}, put_windows});
}

void write_phi3(const GgufModel& model, GgufKeyWriter& keys) {
  write_transformer(model, keys);
  keys.size("attention.sliding_window", model.layers[0].attention->window);
}

constexpr const char* phi3_types[] = {"phi3"};

// Granite.

constexpr std::string_view granite_keys[] = {"attention.scale", "embedding_scale", "residual_scale", "logit_scale"};

void put_multipliers(const GgufKeys& keys, ordered_json& config) {
  put_granite_factors(keys, config);
  if (!keys.find_boolean("rope.scaling.finetuned").value_or(true)) {
    keys.fail("rope.scaling.finetuned", "must be true; Granite without RoPE is not implemented");
  }
}

void put_granite(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  put_multipliers(keys, config);
}

Json read_granite(const Gguf& file) {
  return read_gguf_target(file, {"granite", "GraniteForCausalLM", granite_keys, granite_factors, put_granite});
}

void write_granite(const GgufModel& model, GgufKeyWriter& keys) {
  write_plain_transformer(model, keys);
  write_granite_factors(model, keys);
}

constexpr const char* granite_types[] = {"granite"};

// With experts.

constexpr std::string_view granitemoe_keys[] = {"attention.scale", "embedding_scale", "residual_scale", "logit_scale",
                                                "expert_feed_forward_length"};
constexpr GgufName granitemoe_layer[] = {{"attn_norm", "input_layernorm"},
                                         {"attn_q", "self_attn.q_proj", true},
                                         {"attn_k", "self_attn.k_proj", true},
                                         {"attn_v", "self_attn.v_proj"},
                                         {"attn_output", "self_attn.o_proj"},
                                         {"ffn_norm", "post_attention_layernorm"},
                                         {"ffn_gate_inp", "block_sparse_moe.router.layer"},
                                         {"ffn_gate_exps", "block_sparse_moe.gate_proj"},
                                         {"ffn_up_exps", "block_sparse_moe.up_proj"},
                                         {"ffn_down_exps", "block_sparse_moe.output_linear"}};
constexpr GgufNames granitemoe_names = {
    .whole = transformer_whole,
    .layer = granitemoe_layer,
    .pairs_rows = true,
    .fused = {.gate_up = "block_sparse_moe.input_linear", .down = "block_sparse_moe.output_linear"}};

void put_granitemoe(const GgufKeys& keys, ordered_json& config) {
  put_multipliers(keys, config);
  config["num_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
}

Json read_granitemoe(const Gguf& file) {
  return read_gguf_target(file,
                          {"granitemoe", "GraniteMoeForCausalLM", granitemoe_keys, granite_factors, put_granitemoe});
}

constexpr const char* granitemoe_types[] = {"granitemoe"};

// Qwen2-MoE and OLMoE. llama.cpp does not normalize the weights of the chosen experts.

constexpr auto shared_expert_layer = joined({{"attn_norm", "input_layernorm"},
                                             {"attn_q", "self_attn.q_proj"},
                                             {"attn_k", "self_attn.k_proj"},
                                             {"attn_v", "self_attn.v_proj"},
                                             {"attn_output", "self_attn.o_proj"},
                                             {"ffn_norm", "post_attention_layernorm"},
                                             {"ffn_gate_inp", "mlp.gate"},
                                             {"ffn_gate_exps", "mlp.experts.gate_proj"},
                                             {"ffn_up_exps", "mlp.experts.up_proj"},
                                             {"ffn_down_exps", "mlp.experts.down_proj"}},
                                            {{"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
                                             {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                             {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                             {"ffn_down_shexp", "mlp.shared_expert.down_proj"}});
constexpr GgufNames qwen2_moe_names = {.whole = transformer_whole, .layer = shared_expert_layer};
constexpr std::string_view qwen2_moe_keys[] = {"expert_feed_forward_length", "expert_shared_feed_forward_length",
                                               "expert_gating_func"};
constexpr GgufField qwen2_moe_fields[] = {{"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}};

void put_unnormalized_experts(const GgufKeys& keys, ordered_json& config) {
  config["num_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
  config["norm_topk_prob"] = false;
  if (keys.find_size("expert_gating_func").value_or(softmax_gating) != softmax_gating) {
    keys.fail("expert_gating_func", "is not implemented; only 1, the softmax, is");
  }
}

void put_qwen2_moe(const GgufKeys& keys, ordered_json& config) {
  put_unnormalized_experts(keys, config);
  config["moe_intermediate_size"] = keys.size("expert_feed_forward_length");
  config["shared_expert_intermediate_size"] = keys.size("expert_shared_feed_forward_length");
  if (!config.contains("intermediate_size")) config["intermediate_size"] = config["moe_intermediate_size"];
  config["qkv_bias"] = keys.has_tensor("blk.0.attn_q.bias");
}

Json read_qwen2_moe(const Gguf& file) {
  return read_gguf_target(file, {"qwen2_moe", "Qwen2MoeForCausalLM", qwen2_moe_keys, qwen2_moe_fields, put_qwen2_moe});
}

constexpr std::string_view olmoe_keys[] = {"expert_feed_forward_length", "expert_gating_func"};

Json read_olmoe(const Gguf& file) {
  return read_gguf_target(file, {"olmoe", "OlmoeForCausalLM", olmoe_keys, {}, put_unnormalized_experts});
}

void write_unnormalized_experts(const GgufModel& model, GgufKeyWriter& keys) {
  for (const GgufModel::Layer& layer : model.layers) {
    if (layer.slides()) model.config.at("sliding_window").fail("has no form in a GGUF of " + keys.architecture());
    if (layer.experts.count == 0) {
      model.config.fail("layers with and without experts have no form in a GGUF of " + keys.architecture());
    }
    if (layer.experts.normalized) {
      model.config.at("norm_topk_prob").fail("must be false in a GGUF of " + keys.architecture());
    }
  }
  write_transformer(model, keys);
}

constexpr const char* qwen2_moe_types[] = {"qwen2_moe"};
constexpr const char* olmoe_types[] = {"olmoe"};

// OLMo 2 and 3, and EXAONE 4: norms behind attention and MLP.

constexpr GgufName post_norm_layer[] = {{"attn_q", "self_attn.q_proj"},
                                        {"attn_k", "self_attn.k_proj"},
                                        {"attn_v", "self_attn.v_proj"},
                                        {"attn_output", "self_attn.o_proj"},
                                        {"attn_q_norm", "self_attn.q_norm"},
                                        {"attn_k_norm", "self_attn.k_norm"},
                                        {"post_attention_norm", "post_attention_layernorm"},
                                        {"ffn_gate", "mlp.gate_proj"},
                                        {"ffn_up", "mlp.up_proj"},
                                        {"ffn_down", "mlp.down_proj"},
                                        {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr GgufNames post_norm_names = {.whole = transformer_whole, .layer = post_norm_layer};

Json read_olmo2(const Gguf& file) {
  const GgufKeys keys(file);
  const bool slides = keys.find_integer("attention.sliding_window").value_or(0) != 0;
  if (slides) return read_gguf_target(file, {"olmo3", "Olmo3ForCausalLM", window_keys, {}, put_windows});
  return read_gguf_target(file, {"olmo2", "Olmo2ForCausalLM", window_keys, {}, put_windows});
}

void write_with_windows(const GgufModel& model, GgufKeyWriter& keys) {
  write_transformer(model, keys);
  write_windows(model, keys);
}

Json read_exaone4(const Gguf& file) {
  return read_gguf_target(file, {"exaone4", "Exaone4ForCausalLM", window_keys, {}, put_windows});
}

constexpr const char* olmo2_types[] = {"olmo2", "olmo3"};
constexpr const char* exaone4_types[] = {"exaone4"};

// GLM-4: rows of q and k are in the order of the folder, pairs as neighbors.

constexpr GgufName glm4_layer[] = {{"attn_norm", "input_layernorm"},
                                   {"attn_q", "self_attn.q_proj"},
                                   {"attn_k", "self_attn.k_proj"},
                                   {"attn_v", "self_attn.v_proj"},
                                   {"attn_output", "self_attn.o_proj"},
                                   {"post_attention_norm", "post_self_attn_layernorm"},
                                   {"ffn_norm", "post_attention_layernorm"},
                                   {"ffn_up", "mlp.gate_up_proj"},
                                   {"ffn_down", "mlp.down_proj"},
                                   {"post_ffw_norm", "post_mlp_layernorm"}};
constexpr GgufNames glm4_names = {.whole = transformer_whole, .layer = glm4_layer};

void put_biases(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  config["attention_bias"] = keys.has_tensor("blk.0.attn_q.bias");
}

Json read_glm4(const Gguf& file) { return read_gguf_target(file, {"glm4", "Glm4ForCausalLM", {}, {}, put_biases}); }

constexpr const char* glm4_types[] = {"glm4"};

// Cohere 2: the order of rows is that of the folder, too.

constexpr std::string_view cohere2_keys[] = {"attention.sliding_window", "attention.sliding_window_pattern",
                                             "attention.layer_norm_epsilon", "logit_scale", "rope.freq_base_swa"};
constexpr GgufField cohere2_fields[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"},
                                        {"logit_scale", "logit_scale"}};

void put_cohere2(const GgufKeys& keys, ordered_json& config) {
  put_windows(keys, config);
  config["logit_scale"] = keys.number("logit_scale");
}

Json read_cohere2(const Gguf& file) {
  return read_gguf_target(file, {"cohere2", "Cohere2ForCausalLM", cohere2_keys, cohere2_fields, put_cohere2});
}

void write_cohere2(const GgufModel& model, GgufKeyWriter& keys) {
  write_with_windows(model, keys);
  keys.number("logit_scale", model.logit_scale);
}

constexpr const char* cohere2_types[] = {"cohere2"};

// Seed-OSS, whose norm before the MLP has the name of one behind attention.

constexpr GgufName seed_oss_layer[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
constexpr GgufNames seed_oss_names = {.whole = transformer_whole, .layer = seed_oss_layer};

void put_seed_oss(const GgufKeys& keys, ordered_json& config) {
  put_biases(keys, config);
  config["attention_out_bias"] = keys.has_tensor("blk.0.attn_output.bias");
}

Json read_seed_oss(const Gguf& file) {
  return read_gguf_target(file, {"seed_oss", "SeedOssForCausalLM", {}, {}, put_seed_oss});
}

constexpr const char* seed_oss_types[] = {"seed_oss"};

// ERNIE 4.5: the order of rows is that of the folder.

void put_ernie45(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  config["use_bias"] = config["attention_bias"];
  config.erase("attention_bias");
  config.erase("mlp_bias");
}

Json read_ernie45(const Gguf& file) {
  return read_gguf_target(file, {"ernie4_5", "Ernie4_5ForCausalLM", {}, {}, put_ernie45});
}

constexpr const char* ernie45_types[] = {"ernie4_5"};

// StableLM.

constexpr std::string_view stablelm_keys[] = {"attention.layer_norm_epsilon", "use_parallel_residual"};
constexpr GgufField stablelm_fields[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"},
                                         {"use_parallel_residual", "use_parallel_residual"}};

/// llama.cpp tells by the norm of the MLP whether it reads what attention reads.
void put_stablelm(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  config["use_parallel_residual"] = !keys.has_tensor("blk.0.ffn_norm.weight");
  config["use_qkv_bias"] = keys.has_tensor("blk.0.attn_q.bias");
  if (!config.contains("partial_rotary_factor")) config["partial_rotary_factor"] = 1;
}

Json read_stablelm(const Gguf& file) {
  return read_gguf_target(file, {"stablelm", "StableLmForCausalLM", stablelm_keys, stablelm_fields, put_stablelm});
}

void write_stablelm(const GgufModel& model, GgufKeyWriter& keys) {
  write_plain_transformer(model, keys);
  const auto parallel = model.config.find("use_parallel_residual");
  keys.truth("use_parallel_residual", parallel && parallel->boolean());
}

constexpr const char* stablelm_types[] = {"stablelm"};

// Arcee and StarCoder 2: MLPs without a gate.

void put_arcee(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  config["hidden_act"] = "relu2";
}

Json read_arcee(const Gguf& file) { return read_gguf_target(file, {"arcee", "ArceeForCausalLM", {}, {}, put_arcee}); }

constexpr const char* arcee_types[] = {"arcee"};

constexpr GgufName starcoder2_layer[] = {
    {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.c_fc"},           {"ffn_down", "mlp.c_proj"}};
constexpr GgufNames starcoder2_names = {.whole = transformer_whole, .layer = starcoder2_layer};
constexpr std::string_view starcoder2_keys[] = {"attention.layer_norm_epsilon"};
constexpr GgufField starcoder2_fields[] = {{"norm_epsilon", "attention.layer_norm_epsilon"}};

void put_starcoder2(const GgufKeys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  config["hidden_act"] = "gelu_pytorch_tanh";
  config["norm_epsilon"] = config["layer_norm_eps"];
  config["use_bias"] = config["attention_bias"];
  config.erase("attention_bias");
  config.erase("mlp_bias");
}

Json read_starcoder2(const Gguf& file) {
  return read_gguf_target(file,
                          {"starcoder2", "Starcoder2ForCausalLM", starcoder2_keys, starcoder2_fields, put_starcoder2});
}

constexpr const char* starcoder2_types[] = {"starcoder2"};

}  // namespace

const GgufFamily gguf_smollm3 = {"smollm3", smollm3_types, in_pairs, read_smollm3, write_smollm3};
const GgufFamily gguf_phi3 = {"phi3", phi3_types, phi3_names, read_phi3, write_phi3};
const GgufFamily gguf_granite = {"granite", granite_types, in_pairs, read_granite, write_granite};
const GgufFamily gguf_granitemoe = {"granitemoe", granitemoe_types, granitemoe_names, read_granitemoe, write_granite};
const GgufFamily gguf_qwen2_moe = {"qwen2moe", qwen2_moe_types, qwen2_moe_names, read_qwen2_moe,
                                   write_unnormalized_experts};
const GgufFamily gguf_olmoe = {"olmoe", olmoe_types, plain, read_olmoe, write_unnormalized_experts};
const GgufFamily gguf_olmo2 = {"olmo2", olmo2_types, post_norm_names, read_olmo2, write_with_windows};
const GgufFamily gguf_exaone4 = {"exaone4", exaone4_types, post_norm_names, read_exaone4, write_with_windows};
const GgufFamily gguf_glm4 = {"glm4", glm4_types, glm4_names, read_glm4, write_plain_transformer};
const GgufFamily gguf_cohere2 = {"cohere2", cohere2_types, plain, read_cohere2, write_cohere2};
const GgufFamily gguf_seed_oss = {"seed_oss", seed_oss_types, seed_oss_names, read_seed_oss, write_plain_transformer};
const GgufFamily gguf_ernie45 = {"ernie4_5", ernie45_types, plain, read_ernie45, write_plain_transformer};
const GgufFamily gguf_arcee = {"arcee", arcee_types, in_pairs, read_arcee, write_plain_transformer};
const GgufFamily gguf_starcoder2 = {"starcoder2", starcoder2_types, starcoder2_names, read_starcoder2,
                                    write_plain_transformer};
const GgufFamily gguf_stablelm = {"stablelm", stablelm_types, plain, read_stablelm, write_stablelm};

}  // namespace draftproof
