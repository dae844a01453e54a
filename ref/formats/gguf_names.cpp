// SPDX-License-Identifier: MIT
// The names and keys are those of llama.cpp's gguf-py (constants.py, tensor_mapping.py); their meaning is that of its
// conversion scripts.
#include "ref/formats/gguf_names.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ref/base/error.h"
#include "ref/formats/printable.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t layers_max = 1 << 20;

constexpr GgufName transformer_whole[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

constexpr GgufName transformer_layer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", true},
    {"attn_k", "self_attn.k_proj", true},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    // Of Qwen3-MoE; one tensor for all experts: [experts][outputs][inputs].
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
    // Of MTP heads, which are behind the layers.
    {"nextn.eh_proj", "eh_proj"},
    {"nextn.enorm", "enorm"},
    {"nextn.hnorm", "hnorm"},
    {"nextn.shared_head_norm", "shared_head.norm"},
    {"nextn.shared_head_head", "shared_head.head"},
    {"nextn.embed_tokens", "embed_tokens"},
};

/// Of Qwen3.5, dense and with experts.
constexpr GgufName hybrid_layer[] = {
    {"attn_norm", "input_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
    {"ssm_a", "linear_attn.A_log", false, true},
    {"ssm_dt.bias", "linear_attn.dt_bias", false, true},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"nextn.eh_proj", "eh_proj"},
    {"nextn.enorm", "enorm"},
    {"nextn.hnorm", "hnorm"},
    {"nextn.shared_head_norm", "shared_head.norm"},
    {"nextn.shared_head_head", "shared_head.head"},
    {"nextn.embed_tokens", "embed_tokens"},
};

constexpr GgufName gemma_layer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    // Of Gemma 4.
    {"layer_output_scale.weight", "layer_scalar", false, true},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"ffn_gate_inp", "router.proj"},
    {"ffn_gate_inp.scale", "router.scale", false, true},
    {"ffn_gate_up_exps.weight", "experts.gate_up_proj", false, true},
    {"ffn_gate_exps", "experts.gate_proj"},
    {"ffn_up_exps", "experts.up_proj"},
    {"ffn_down_exps.weight", "experts.down_proj", false, true},
    {"ffn_down_exps.scale", "router.per_expert_scale", false, true},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
};

constexpr GgufName gemma4_whole[] = {{"token_embd", "model.embed_tokens"},
                                     {"output_norm", "model.norm"},
                                     {"output", "lm_head"},
                                     {"per_layer_token_embd", "model.embed_tokens_per_layer"},
                                     {"per_layer_model_proj", "model.per_layer_model_projection"},
                                     {"per_layer_proj_norm", "model.per_layer_projection_norm"}};

constexpr GgufName gemma4_assistant_whole[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"nextn.pre_projection", "pre_projection"},
    {"nextn.post_projection", "post_projection"},
    {"masked_embd_centroids", "masked_embedding.centroids"},
    {"masked_embd_ordering", "masked_embedding.token_ordering", false, true},
};

/// Names of DFlash drafts in llama.cpp (the first of several names) and others.
constexpr GgufName dflash_whole[] = {
    {"fc", "fc"},
    {"dflash_fc", "fc"},
    {"dflash.fc", "fc"},
    {"encoder.fc", "fc"},
    {"enc.output_norm", "hidden_norm"},
    {"dflash_hidden_norm", "hidden_norm"},
    {"dflash.hidden_norm", "hidden_norm"},
    {"output_norm", "norm"},
    // Where the draft has its own embedding, head or vocabulary.
    {"token_embd", "embed_tokens"},
    {"output", "lm_head"},
    {"d2t", "d2t", false, true},
    // Of DFlash2.
    {"selector_hidden", "candidate_selector.hidden_projection"},
    {"selector_predecessor.weight", "candidate_selector.predecessor_codebook", false, true},
    {"selector_successor.weight", "candidate_selector.successor_codebook", false, true},
};

constexpr GgufName dflash_layer[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", true},
    {"attn_k", "self_attn.k_proj", true},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_sinks.weight", "self_attn.attention_sink_bias", false, true},
    {"attn_sinks", "self_attn.attention_sink_bias", false, true},
    {"ffn_norm", "post_attention_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    // Of DFlash2.
    {"attn_conv_base", "attention_conv.base_kernel", false, true},
    {"attn_conv_proj", "attention_conv.kernel_projection"},
    {"ffn_conv_base", "mlp_conv.base_kernel", false, true},
    {"ffn_conv_proj", "mlp_conv.kernel_projection"},
};

/// The same with those of ik_llama.cpp first.
constexpr auto ik_dflash_whole = [] {
  std::array<GgufName, 2 + std::size(dflash_whole)> names = {
      GgufName{"dflash_fc", "fc"}, GgufName{"dflash_hidden_norm", "hidden_norm"}};
  std::ranges::copy(dflash_whole, names.begin() + 2);
  return names;
}();

constexpr auto ik_dflash_layer = [] {
  std::array<GgufName, 1 + std::size(dflash_layer)> names = {
      GgufName{"post_attention_norm", "post_attention_layernorm"}};
  std::ranges::copy(dflash_layer, names.begin() + 1);
  return names;
}();

/// The keys "<architecture>.<name>" of one file.
class Keys {
 public:
  explicit Keys(const Gguf& file) : file_(file), prefix_(*file.find_text("general.architecture") + ".") {}

  std::optional<std::int64_t> find_size(const std::string& name) const {
    const auto value = file_.find_integer(prefix_ + name);
    if (value && *value < 1) file_.fail(prefix_ + name, "must be at least 1, but is " + std::to_string(*value));
    return value;
  }
  std::int64_t size(const std::string& name) const { return given(name, find_size(name)); }
  std::optional<std::int64_t> find_integer(const std::string& name) const { return file_.find_integer(prefix_ + name); }
  bool listed(const std::string& name) const {
    const auto found = file_.metadata().find(prefix_ + name);
    return found != file_.metadata().end() && (std::holds_alternative<std::vector<std::int64_t>>(found->second) ||
                                               std::holds_alternative<std::vector<std::uint64_t>>(found->second));
  }
  /// Returns the sizes of all layers, where a file may give one for all.
  std::vector<std::int64_t> layer_sizes(const std::string& name) const {
    const auto layers = static_cast<std::size_t>(size("block_count"));
    if (!listed(name)) return std::vector<std::int64_t>(layers, size(name));
    std::vector<std::int64_t> sizes = *find_integers(name);
    if (sizes.size() != layers) {
      fail(name, "has " + std::to_string(sizes.size()) + " values for " + std::to_string(layers) + " layers");
    }
    for (const std::int64_t value : sizes) {
      if (value < 1) fail(name, "must be at least 1, but is " + std::to_string(value));
    }
    return sizes;
  }
  /// Returns a size that some files give per layer. All layers must have the same one.
  std::optional<std::int64_t> find_layer_size(const std::string& name) const {
    if (!listed(name)) return find_size(name);
    const std::vector<std::int64_t> sizes = layer_sizes(name);
    if (std::ranges::any_of(sizes, [&](std::int64_t value) { return value != sizes[0]; })) {
      fail(name, "differs from layer to layer, which is not implemented");
    }
    return sizes[0];
  }
  std::int64_t layer_size(const std::string& name) const { return given(name, find_layer_size(name)); }
  std::optional<double> find_number(const std::string& name) const {
    const auto value = file_.find_number(prefix_ + name);
    if (value && !(*value > -1e300 && *value < 1e300)) file_.fail(prefix_ + name, "must be a finite number");
    return value;
  }
  double number(const std::string& name) const { return given(name, find_number(name)); }
  const std::string* find_text(const std::string& name) const { return file_.find_text(prefix_ + name); }
  [[noreturn]] void fail(const std::string& name, const std::string& what) const { file_.fail(prefix_ + name, what); }

  std::string whole(const char* name) const { return prefix_ + name; }
  bool has_tensor(const std::string& name) const { return file_.tensors().contains(name); }

  std::optional<bool> find_boolean(const std::string& name) const {
    const auto found = file_.metadata().find(prefix_ + name);
    if (found == file_.metadata().end()) return std::nullopt;
    if (const bool* const value = std::get_if<bool>(&found->second)) return *value;
    fail(name, "must be a boolean");
  }
  std::optional<std::vector<std::int64_t>> find_integers(const std::string& name) const {
    const auto found = file_.metadata().find(prefix_ + name);
    if (found == file_.metadata().end()) return std::nullopt;
    if (const auto* const values = std::get_if<std::vector<std::int64_t>>(&found->second)) return *values;
    const auto* const values = std::get_if<std::vector<std::uint64_t>>(&found->second);
    if (values == nullptr) fail(name, "must be an array of integers");
    return std::vector<std::int64_t>(values->begin(), values->end());
  }

  /// Throws Error when the file has a key of the architecture that is not one of these: ignoring a key could compute
  /// something else.
  void refuse_all_but(std::span<const std::string_view> known) const {
    for (auto at = file_.metadata().lower_bound(prefix_); at != file_.metadata().end(); ++at) {
      if (!at->first.starts_with(prefix_)) return;
      if (std::ranges::find(known, std::string_view(at->first).substr(prefix_.size())) == known.end()) {
        file_.fail(printable(at->first), "is not implemented; ignoring it could compute something else");
      }
    }
  }

 private:
  template <class Value>
  Value given(const std::string& name, const std::optional<Value>& value) const {
    if (!value) fail(name, "is missing; the file does not describe the model");
    return *value;
  }

  const Gguf& file_;
  std::string prefix_;
};

/// Reads the RoPE scaling keys as llama.cpp does: a factor without a type is linear, 0 means 1, and 'none' has no
/// factor. Of yarn the magnitude is that of its factor, divided by that of yarn_log_multiplier. Returns rope_scaling,
/// null when nothing scales.
ordered_json rope_scaling(const Keys& keys) {
  const std::string* const type = keys.find_text("rope.scaling.type");
  if (type != nullptr && *type == "none") return nullptr;
  if (type != nullptr && *type != "linear" && *type != "yarn") {
    keys.fail("rope.scaling.type", in_quotes(*type) + " is not implemented; only 'none', 'linear' and 'yarn' are");
  }
  for (const char* name : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor",
                           "rope.scaling.yarn_ext_factor"}) {
    if (keys.find_number(name).value_or(1) != 1) keys.fail(name, "is not implemented; only 1 is");
  }
  double factor = 1;
  for (const char* name : {"rope.scale_linear", "rope.scaling.factor"}) {
    const auto found = keys.find_number(name);
    if (found && *found != 0) factor = *found;
  }
  if (type == nullptr || *type == "linear") {
    if (factor == 1) return nullptr;
    return {{"rope_type", "linear"}, {"factor", factor}};
  }
  ordered_json block = {{"rope_type", "yarn"}, {"factor", factor}};
  const auto copy = [&](const char* name, const char* field) {
    if (const auto number = keys.find_number(name)) block[field] = *number;
  };
  copy("rope.scaling.original_context_length", "original_max_position_embeddings");
  copy("rope.scaling.yarn_beta_fast", "beta_fast");
  copy("rope.scaling.yarn_beta_slow", "beta_slow");
  copy("rope.scaling.yarn_log_multiplier", "mscale_all_dim");
  if (block.contains("mscale_all_dim")) block["mscale"] = 1;
  return block;
}

/// Tokens that llama.cpp (llama-vocab.cpp) treats as stop tokens by their text, whatever their type. Without those of
/// tokenizers whose architectures are not supported here (gpt-oss, Solar); of Gemma 4 the end of a turn, as the others
/// are stop tokens only in combination.
constexpr std::string_view stop_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "</s>",
    "<|eom_id|>", "<EOT>",      "_<EOT>",  "[EOT]",         "[EOS]",         "<|end_of_text|>",
    "<end_of_utterance>", "<eos>", "<turn|>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "[e~["};

/// Fill-in-the-middle tokens: padding, next repository, next file. They are stop tokens as well. A key takes precedence
/// over the texts.
struct MiddleToken {
  const char* key;
  std::vector<std::string_view> texts;
};
const std::vector<MiddleToken>& middle_tokens() {
  static const std::vector<MiddleToken> tokens = {
      {"tokenizer.ggml.fim_pad_token_id", {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {"tokenizer.ggml.fim_rep_token_id", {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {"tokenizer.ggml.fim_sep_token_id", {"<|file_sep|>"}}};
  return tokens;
}

/// Adds the stop tokens to the configuration, by key and by text.
void put_stop_tokens(const Gguf& file, ordered_json& config) {
  std::vector<std::string_view> texts(std::begin(stop_texts), std::end(stop_texts));
  for (const char* key : {"eos", "eot", "eom"}) {
    const auto id = file.find_integer(std::string("tokenizer.ggml.") + key + "_token_id");
    if (id) config["eos_token_id"].push_back(*id);
  }
  for (const MiddleToken& token : middle_tokens()) {
    if (const auto id = file.find_integer(token.key)) config["eos_token_id"].push_back(*id);
    else texts.insert(texts.end(), token.texts.begin(), token.texts.end());
  }
  const auto found = file.metadata().find("tokenizer.ggml.tokens");
  if (found == file.metadata().end()) return;
  const auto* const tokens = std::get_if<std::vector<std::string>>(&found->second);
  if (tokens == nullptr) file.fail(found->first, "must be an array of strings");
  for (std::size_t id = 0; id < tokens->size(); ++id) {
    if (std::ranges::find(texts, (*tokens)[id]) != texts.end()) config["eos_token_id"].push_back(id);
  }
}

constexpr std::string_view transformer_keys[] = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor",
    "rope.scaling.original_context_length", "rope.scaling.finetuned", "rope.scaling.attn_factor",
    "rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor", "rope.scale_linear", "vocab_size",
    "tensor_data_layout"};

/// Keys of target models. The accepted values of these keys have no effect.
constexpr std::string_view target_keys[] = {"attention.causal", "expert_count", "expert_used_count",
                                            "nextn_predict_layers"};

/// Returns the configuration fields of every decoder-only transformer. `uneven`: of what may differ from layer to layer
/// those of the first.
ordered_json transformer_fields(const Gguf& file, const Keys& keys, const char* model_type, const char* class_name,
                                bool uneven = false) {
  const std::int64_t hidden = keys.size("embedding_length");
  const std::int64_t heads = keys.layer_size("attention.head_count");
  const auto key_length = keys.find_size("attention.key_length");
  if (!key_length && hidden % heads != 0) keys.fail("attention.key_length", "is missing, and cannot be computed");
  const std::int64_t head_dim = key_length.value_or(hidden / heads);
  if (keys.find_size("attention.value_length").value_or(head_dim) != head_dim) {
    keys.fail("attention.value_length", "differs from the length of keys, which is not implemented");
  }
  const auto embedding = file.tensors().find("token_embd.weight");
  const bool has_embedding = embedding != file.tensors().end() && embedding->second.shape.size() == 2;
  const auto vocabulary = keys.find_size("vocab_size");

  ordered_json config = {
      {"model_type", model_type},
      {"architectures", {class_name}},
      {"hidden_size", hidden},
      {"num_hidden_layers", keys.size("block_count")},
      {"num_attention_heads", heads},
      {"num_key_value_heads", uneven ? keys.layer_sizes("attention.head_count_kv")[0]
                                     : keys.find_layer_size("attention.head_count_kv").value_or(heads)},
      {"head_dim", head_dim},
      {"max_position_embeddings", keys.size("context_length")},
      {"rms_norm_eps", keys.number("attention.layer_norm_rms_epsilon")},
      {"rope_theta", keys.find_number("rope.freq_base").value_or(10000.0)},
      {"hidden_act", "silu"},
      {"tie_word_embeddings", !file.tensors().contains("output.weight")},
      {"attention_bias", file.tensors().contains("blk.0.attn_output.bias")},  // those of q, k and v are beside it
      {"mlp_bias", file.tensors().contains("blk.0.ffn_down.bias")},
  };
  if (uneven) config["intermediate_size"] = keys.layer_sizes("feed_forward_length")[0];
  else if (const auto inner = keys.find_layer_size("feed_forward_length")) config["intermediate_size"] = *inner;
  if (ordered_json scaling = rope_scaling(keys); !scaling.is_null()) config["rope_scaling"] = std::move(scaling);
  if (vocabulary || has_embedding) config["vocab_size"] = vocabulary ? *vocabulary : embedding->second.shape[0];
  if (const auto turned = keys.find_size("rope.dimension_count"); turned && *turned != head_dim) {
    config["partial_rotary_factor"] = static_cast<double>(*turned) / static_cast<double>(head_dim);
  }
  return config;
}

using Names = std::map<std::string, std::string>;

/// Errors about a field name the key that it was read from: the one in `names`, else the default one.
Json as_json(const Gguf& file, const Keys& keys, const ordered_json& config, Names names) {
  for (const auto& [field, key] : std::initializer_list<std::pair<const char*, const char*>>{
           {"hidden_size", "embedding_length"},
           {"intermediate_size", "feed_forward_length"},
           {"num_hidden_layers", "block_count"},
           {"num_attention_heads", "attention.head_count"},
           {"num_key_value_heads", "attention.head_count_kv"},
           {"head_dim", "attention.key_length"},
           {"max_position_embeddings", "context_length"},
           {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
           {"rope_theta", "rope.freq_base"},
           {"rope_scaling.factor", "rope.scaling.factor"},
           {"rope_scaling.original_max_position_embeddings", "rope.scaling.original_context_length"},
           {"rope_scaling.beta_fast", "rope.scaling.yarn_beta_fast"},
           {"rope_scaling.beta_slow", "rope.scaling.yarn_beta_slow"},
           {"rope_scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
           {"rope_parameters.llama_4_scaling_beta", "attention.temperature_scale"},
           {"num_experts", "expert_count"},
           {"num_experts_per_tok", "expert_used_count"},
           {"moe_intermediate_size", "expert_feed_forward_length"},
           {"partial_rotary_factor", "rope.dimension_count"},
           {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
           {"full_attention_interval", "full_attention_interval"},
           {"num_nextn_predict_layers", "nextn_predict_layers"},
           {"linear_conv_kernel_dim", "ssm.conv_kernel"},
           {"linear_key_head_dim", "ssm.state_size"},
           {"linear_value_head_dim", "ssm.inner_size"},
           {"linear_num_key_heads", "ssm.group_count"},
           {"linear_num_value_heads", "ssm.time_step_rank"},
           {"vocab_size", "vocab_size"},
           {"is_causal", "attention.causal"},
           {"sliding_window", "attention.sliding_window"},
           {"layer_types", "attention.sliding_window_pattern"},
           {"output_multiplier", "logit_scale"},
           {"final_logit_softcapping", "final_logit_softcapping"},
           {"input_embedding_scale", "embedding_scale"},
           {"attention_value_scale", "attention.value_scale"},
           {"sample_from_anchor", "sample_from_anchor"}}) {
    names.emplace(field, keys.whole(key));
  }
  return Json::parse(config.dump(), file.file().string(), std::move(names));
}

void refuse_experts(const Keys& keys, ordered_json&) {
  for (const char* name : {"expert_count", "expert_used_count"}) {
    if (keys.find_number(name).value_or(0) != 0) keys.fail(name, "must be 0; this architecture has no experts");
  }
}

constexpr std::string_view expert_keys[] = {"expert_feed_forward_length", "expert_weights_scale",
                                            "expert_weights_norm", "expert_gating_func"};

/// llama.cpp normalizes the weights of the chosen experts of every Qwen3-MoE and Qwen3.5; all of their layers have
/// experts.
void put_experts(const Keys& keys, ordered_json& config) {
  config["num_experts"] = keys.size("expert_count");
  config["num_experts_per_tok"] = keys.size("expert_used_count");
  config["moe_intermediate_size"] = keys.size("expert_feed_forward_length");
  config["norm_topk_prob"] = true;
  if (const auto scale = keys.find_number("expert_weights_scale"); scale && *scale != 0 && *scale != 1) {
    keys.fail("expert_weights_scale", "is not implemented; only 1 is");
  }
  if (!keys.find_boolean("expert_weights_norm").value_or(true)) {
    keys.fail("expert_weights_norm", "must be true, as llama.cpp has it");
  }
  if (keys.find_size("expert_gating_func").value_or(1) != 1) {
    keys.fail("expert_gating_func", "is not implemented; only 1, the softmax, is");
  }
}

constexpr std::string_view hybrid_keys[] = {
    "full_attention_interval", "attention.recurrent_layers", "rope.dimension_sections",
    "ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size",
    "expert_feed_forward_length", "expert_shared_feed_forward_length", "expert_weights_scale", "expert_weights_norm",
    "expert_gating_func"};

void put_hybrid(const Keys& keys, ordered_json& config) {
  const auto layers = config["num_hidden_layers"].get<std::int64_t>();
  if (const auto recurrent = keys.find_integers("attention.recurrent_layers")) {
    if (static_cast<std::int64_t>(recurrent->size()) < layers) {
      keys.fail("attention.recurrent_layers", "has fewer values than there are layers");
    }
    for (std::int64_t i = 0; i < layers; ++i) {
      const bool recurs = (*recurrent)[static_cast<std::size_t>(i)] != 0;
      config["layer_types"].push_back(recurs ? "linear_attention" : "full_attention");
    }
  } else {
    config["full_attention_interval"] = keys.find_size("full_attention_interval").value_or(4);
  }
  const std::int64_t value_heads = keys.size("ssm.time_step_rank");
  const std::int64_t inner = keys.size("ssm.inner_size");
  if (inner % value_heads != 0) keys.fail("ssm.inner_size", "must be a multiple of ssm.time_step_rank");
  config["linear_conv_kernel_dim"] = keys.size("ssm.conv_kernel");
  config["linear_key_head_dim"] = keys.size("ssm.state_size");
  config["linear_value_head_dim"] = inner / value_heads;
  config["linear_num_key_heads"] = keys.size("ssm.group_count");
  config["linear_num_value_heads"] = value_heads;
}

void put_dense_hybrid(const Keys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  put_hybrid(keys, config);
}

void put_experts_hybrid(const Keys& keys, ordered_json& config) {
  put_experts(keys, config);
  put_hybrid(keys, config);
  config["shared_expert_intermediate_size"] = keys.size("expert_shared_feed_forward_length");
}

/// The number of blocks counts those of MTP heads.
void put_heads(const Keys& keys, ordered_json& config) {
  const auto heads = keys.find_integer("nextn_predict_layers");
  if (!heads) return;
  const std::int64_t blocks = keys.size("block_count");
  if (*heads < 0 || *heads >= blocks) keys.fail("nextn_predict_layers", "must be at least 0 and below block_count");
  config["num_hidden_layers"] = blocks - *heads;
  config["num_nextn_predict_layers"] = *heads;
}

/// `own`: the keys of this architecture that other targets do not have. `put` adds the fields that they make.
Json transformer_config(const Gguf& file, const char* model_type, const char* class_name,
                        std::span<const std::string_view> own = {},
                        void (*put)(const Keys& keys, ordered_json& config) = refuse_experts, bool uneven = false) {
  const Keys keys(file);
  std::vector<std::string_view> known(std::begin(transformer_keys), std::end(transformer_keys));
  known.insert(known.end(), std::begin(target_keys), std::end(target_keys));
  known.insert(known.end(), own.begin(), own.end());
  keys.refuse_all_but(known);
  if (!keys.find_boolean("attention.causal").value_or(true)) {
    keys.fail("attention.causal", "must be true for a target model");
  }
  ordered_json config = transformer_fields(file, keys, model_type, class_name, uneven);
  put_heads(keys, config);
  put(keys, config);
  if (!config.contains("vocab_size")) {
    keys.fail("vocab_size", "is missing, and so is the tensor token_embd.weight");
  }
  put_stop_tokens(file, config);
  return as_json(file, keys, config, {{"eos_token_id", "tokenizer.ggml.eos_token_id"}});
}

/// Returns one configuration for all spellings. llama.cpp counts tapped layers from 1 ("target_layers"), others from 0
/// ("target_layer_ids"). A draft without a vocabulary uses its target's.
Json dflash_config(const Gguf& file) {
  constexpr std::string_view own[] = {
      "block_size", "target_layers", "mask_token_id", "target_layer_ids", "n_target_features", "laguna",
      "dflash.block_size", "dflash.target_layer_ids", "dflash.mask_token_id", "dflash.n_target_features",
      "dflash.laguna", "attention.causal", "attention.sliding_window", "attention.sliding_window_pattern",
      "attention.value_scale", "rope.dimension_sections", "logit_scale", "final_logit_softcapping",
      "embedding_scale", "sample_from_anchor", "conv_kernel_size", "conv_group_size", "selector_rank",
      "selector_top_k"};
  const Keys keys(file);
  std::vector<std::string_view> known(std::begin(transformer_keys), std::end(transformer_keys));
  known.insert(known.end(), std::begin(own), std::end(own));
  keys.refuse_all_but(known);
  ordered_json config = transformer_fields(file, keys, "qwen3", "DFlashDraftModel");

  Names names;
  for (const char* name : {"block_size", "dflash.block_size"}) {
    const auto size = keys.find_size(name);
    if (!size) continue;
    config["block_size"] = *size;
    names["block_size"] = keys.whole(name);
  }
  ordered_json block = ordered_json::object();
  for (const std::string& key :
       {keys.whole("mask_token_id"), keys.whole("dflash.mask_token_id"), std::string("dflash.mask_token_id"),
        std::string("tokenizer.ggml.mask_token_id")}) {
    const auto mask = file.find_integer(key);
    if (!mask) continue;
    block["mask_token_id"] = *mask;
    names["dflash_config.mask_token_id"] = key;
  }
  for (const char* name : {"target_layer_ids", "dflash.target_layer_ids"}) {
    const auto layers = keys.find_integers(name);
    if (!layers) continue;
    block["target_layer_ids"] = *layers;
    names["dflash_config.target_layer_ids"] = keys.whole(name);
  }
  if (auto layers = keys.find_integers("target_layers")) {
    for (std::int64_t& layer : *layers) {
      if (layer < 1 || layer > layers_max) keys.fail("target_layers", "counts layers from 1");
      --layer;
    }
    block["target_layer_ids"] = *layers;
    names["dflash_config.target_layer_ids"] = keys.whole("target_layers");
  }
  for (const char* sinks : {"blk.0.attn_sinks.weight", "blk.0.attn_sinks"}) {
    if (file.tensors().contains(sinks)) block["attention_sink_bias"] = true;
  }
  config["dflash_config"] = block;

  for (const char* name : {"laguna", "dflash.laguna"}) {
    if (keys.find_boolean(name).value_or(false)) keys.fail(name, "is not implemented");
  }
  if (const auto causal = keys.find_boolean("attention.causal")) config["is_causal"] = *causal;
  if (const auto window = keys.find_size("attention.sliding_window")) config["sliding_window"] = *window;
  if (const auto pattern = keys.find_integers("attention.sliding_window_pattern")) {
    for (const std::int64_t slides : *pattern) {
      config["layer_types"].push_back(slides != 0 ? "sliding_attention" : "full_attention");
    }
  }
  const std::pair<const char*, const char*> factors[] = {{"logit_scale", "output_multiplier"},
                                                         {"final_logit_softcapping", "final_logit_softcapping"},
                                                         {"embedding_scale", "input_embedding_scale"},
                                                         {"attention.value_scale", "attention_value_scale"}};
  for (const auto& [name, field] : factors) {
    if (const auto factor = keys.find_number(name)) config[field] = *factor;
  }
  if (const auto anchor = keys.find_boolean("sample_from_anchor")) config["sample_from_anchor"] = *anchor;
  for (const char* name : {"conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"}) {
    const auto size = keys.find_size(name);
    if (!size) continue;
    config[name] = *size;
    config["architectures"] = {"DFlash2DraftModel"};  // any of them says so
    names[name] = keys.whole(name);
  }
  if (const auto map = file.tensors().find("d2t"); map != file.tensors().end() && map->second.shape.size() == 1) {
    config["draft_vocab_size"] = map->second.shape[0];
  }
  return as_json(file, keys, config, std::move(names));
}

/// Layer types, caps and the window of every Gemma. Without a pattern llama.cpp takes the period of the class.
constexpr std::string_view gemma_keys[] = {
    "attention.sliding_window", "attention.sliding_window_pattern", "attn_logit_softcapping",
    "final_logit_softcapping", "rope.freq_base_swa", "attention.key_length_swa", "attention.value_length_swa",
    "attention.shared_kv_layers", "embedding_length_per_layer_input", "rope.dimension_count_swa",
    "expert_feed_forward_length"};

void put_gemma(const Keys& keys, ordered_json& config) {
  config.erase("hidden_act");
  config["hidden_activation"] = "gelu_pytorch_tanh";
  if (const auto window = keys.find_size("attention.sliding_window")) config["sliding_window"] = *window;
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (const auto cap = keys.find_number(name)) config[name] = *cap;
  }
  if (keys.listed("attention.sliding_window_pattern")) {
    const std::vector<std::int64_t> pattern = *keys.find_integers("attention.sliding_window_pattern");
    for (const std::int64_t slides : pattern) {
      config["layer_types"].push_back(slides != 0 ? "sliding_attention" : "full_attention");
    }
  } else if (const auto period = keys.find_size("attention.sliding_window_pattern")) {
    config["sliding_window_pattern"] = *period;
  }
}

/// The converter adds 1 to the weights of norms. The scale of scores has no key: llama.cpp tells the size of the model
/// by its layers, and the largest one divides by the square root of hidden / heads.
void put_older_gemma(const Keys& keys, ordered_json& config, std::int64_t layers_of_largest) {
  refuse_experts(keys, config);
  put_gemma(keys, config);
  config["norm_offset"] = 0;
  const auto number = [&](const char* field) { return config[field].get<std::int64_t>(); };
  const bool largest = number("num_hidden_layers") == layers_of_largest;
  config["query_pre_attn_scalar"] = largest ? static_cast<double>(number("hidden_size")) /
                                                  static_cast<double>(number("num_attention_heads"))
                                            : static_cast<double>(number("head_dim"));
}

void put_gemma2(const Keys& keys, ordered_json& config) { put_older_gemma(keys, config, 46); }

void put_gemma3(const Keys& keys, ordered_json& config) {
  put_older_gemma(keys, config, 62);
  config["rope_local_base_freq"] = keys.find_number("rope.freq_base_swa").value_or(10000.0);
}

void put_gemma4(const Keys& keys, ordered_json& config) {
  put_gemma(keys, config);
  if (!config.contains("layer_types")) keys.fail("attention.sliding_window_pattern", "must list every layer");
  const std::int64_t layers = keys.size("block_count");
  const std::int64_t full_dim = keys.size("attention.key_length");
  const std::int64_t sliding_dim = keys.find_size("attention.key_length_swa").value_or(full_dim);
  for (const auto& [name, dim] : {std::pair("attention.value_length_swa", sliding_dim),
                                  {"rope.dimension_count", full_dim}, {"rope.dimension_count_swa", sliding_dim}}) {
    if (keys.find_size(name).value_or(dim) != dim) keys.fail(name, "must be the length of the keys of these layers");
  }
  config["head_dim"] = sliding_dim;
  config.erase("partial_rotary_factor");
  config.erase("rope_scaling");
  const auto rope = [](double theta) { return ordered_json{{"rope_type", "default"}, {"rope_theta", theta}}; };
  config["rope_parameters"] = {{"full_attention", rope(config["rope_theta"])},
                               {"sliding_attention", rope(keys.find_number("rope.freq_base_swa").value_or(10000.0))}};
  config.erase("rope_theta");
  const auto shared = static_cast<std::int64_t>(keys.find_number("attention.shared_kv_layers").value_or(0));
  config["num_kv_shared_layers"] = shared;
  config["per_layer_config"] = ordered_json::object();
  const std::vector<std::int64_t> kv_heads = keys.layer_sizes("attention.head_count_kv");
  for (std::size_t i = 0; i < kv_heads.size() && i < config["layer_types"].size(); ++i) {
    const bool full = config["layer_types"][i] == "full_attention";
    config["per_layer_config"][std::to_string(i)] = {{"head_dim", full ? full_dim : sliding_dim},
                                                     {"num_key_value_heads", kv_heads[i]}};
    const bool own = static_cast<std::int64_t>(i) < layers - shared;
    if (own && full && !keys.has_tensor("blk." + std::to_string(i) + ".attn_v.weight")) {
      config["attention_k_eq_v"] = true;
    }
  }
  const std::vector<std::int64_t> widths = keys.layer_sizes("feed_forward_length");
  config["use_double_wide_mlp"] = widths.back() != widths.front();
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool wide = i >= layers - shared && widths.back() != widths.front();
    if (widths[static_cast<std::size_t>(i)] != widths.front() * (wide ? 2 : 1)) {
      keys.fail("feed_forward_length", "must be one number, or twice as much in layers that share keys");
    }
  }
  config["hidden_size_per_layer_input"] =
      static_cast<std::int64_t>(keys.find_number("embedding_length_per_layer_input").value_or(0));
  if (config.contains("vocab_size")) config["vocab_size_per_layer_input"] = config["vocab_size"];
  if (keys.find_number("expert_count").value_or(0) == 0) return;
  config["enable_moe_block"] = true;
  config["num_experts"] = keys.size("expert_count");
  config["top_k_experts"] = keys.size("expert_used_count");
  config["moe_intermediate_size"] = keys.size("expert_feed_forward_length");
}

Json gemma2_config(const Gguf& file) {
  return transformer_config(file, "gemma2", "Gemma2ForCausalLM", gemma_keys, put_gemma2);
}
Json gemma3_config(const Gguf& file) {
  return transformer_config(file, "gemma3_text", "Gemma3ForCausalLM", gemma_keys, put_gemma3);
}
Json gemma4_config(const Gguf& file) {
  return transformer_config(file, "gemma4_text", "Gemma4ForCausalLM", gemma_keys, put_gemma4, true);
}

constexpr std::string_view gemma4_assistant_keys[] = {
    "attention.sliding_window", "attention.sliding_window_pattern", "final_logit_softcapping", "rope.freq_base_swa",
    "attention.key_length_swa", "attention.value_length_swa", "attention.shared_kv_layers",
    "embedding_length_per_layer_input", "rope.dimension_count_swa", "embedding_length_out"};

/// All of its blocks count as predicting layers, and what it returns has the width of its target.
Json gemma4_assistant_config(const Gguf& file) {
  const Keys keys(file);
  std::vector<std::string_view> known(std::begin(transformer_keys), std::end(transformer_keys));
  known.insert(known.end(), std::begin(target_keys), std::end(target_keys));
  known.insert(known.end(), std::begin(gemma4_assistant_keys), std::end(gemma4_assistant_keys));
  keys.refuse_all_but(known);
  ordered_json config = transformer_fields(file, keys, "gemma4_assistant", "Gemma4AssistantForCausalLM", true);
  put_gemma4(keys, config);
  config["attention_k_eq_v"] = false;
  config["num_kv_shared_layers"] = config["num_hidden_layers"];
  config["backbone_hidden_size"] = keys.size("embedding_length_out");
  return as_json(file, keys, config, {{"backbone_hidden_size", keys.whole("embedding_length_out")}});
}

Json qwen3_config(const Gguf& file) { return transformer_config(file, "qwen3", "Qwen3ForCausalLM"); }
Json qwen3_moe_config(const Gguf& file) {
  return transformer_config(file, "qwen3_moe", "Qwen3MoeForCausalLM", expert_keys, put_experts);
}
Json qwen35_config(const Gguf& file) {
  return transformer_config(file, "qwen3_5_text", "Qwen3_5ForCausalLM", hybrid_keys, put_dense_hybrid);
}
Json qwen35_moe_config(const Gguf& file) {
  return transformer_config(file, "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", hybrid_keys, put_experts_hybrid);
}
Json qwen2_config(const Gguf& file) { return transformer_config(file, "qwen2", "Qwen2ForCausalLM"); }

constexpr std::string_view ministral3_keys[] = {"attention.temperature_scale"};

void put_temperature(const Keys& keys, ordered_json& config) {
  refuse_experts(keys, config);
  const auto beta = keys.find_number("attention.temperature_scale");
  if (!beta || *beta == 0) return;
  ordered_json& block = config["rope_scaling"];
  if (!block.contains("original_max_position_embeddings")) {
    keys.fail("rope.scaling.original_context_length", "is missing; attention.temperature_scale needs it");
  }
  block["llama_4_scaling_beta"] = *beta;
  config["rope_parameters"] = std::move(block);
  config.erase("rope_scaling");
}

Json ministral3_config(const Gguf& file) {
  return transformer_config(file, "ministral3", "Ministral3ForCausalLM", ministral3_keys, put_temperature);
}
Json llama_config(const Gguf& file) { return transformer_config(file, "llama", "LlamaForCausalLM"); }

constexpr GgufNames architectures[] = {
    {"qwen3", transformer_whole, transformer_layer, "model.layers.", false, qwen3_config},
    {"qwen3moe", transformer_whole, transformer_layer, "model.layers.", false, qwen3_moe_config},
    {"qwen35", transformer_whole, hybrid_layer, "model.layers.", false, qwen35_config},
    {"qwen35moe", transformer_whole, hybrid_layer, "model.layers.", false, qwen35_moe_config},
    {"qwen2", transformer_whole, transformer_layer, "model.layers.", false, qwen2_config},
    {"llama", transformer_whole, transformer_layer, "model.layers.", true, llama_config},
    {"gemma2", transformer_whole, gemma_layer, "model.layers.", false, gemma2_config},
    {"gemma3", transformer_whole, gemma_layer, "model.layers.", false, gemma3_config},
    {"gemma4", gemma4_whole, gemma_layer, "model.layers.", false, gemma4_config},
    {"gemma4-assistant", gemma4_assistant_whole, gemma_layer, "model.layers.", false, gemma4_assistant_config},
    {"mistral3", transformer_whole, transformer_layer, "model.layers.", true, ministral3_config},
    {"dflash", dflash_whole, dflash_layer, "layers.", false, dflash_config},
    {"dflash-draft", ik_dflash_whole, ik_dflash_layer, "layers.", false, dflash_config},
};

/// The dot before "weight" or "bias"; npos when the name ends otherwise.
std::size_t ending_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view ending = dot == std::string_view::npos ? "" : name.substr(dot);
  return ending == ".weight" || ending == ".bias" ? dot : std::string_view::npos;
}

/// Translates a name inside of a layer, or outside of all, from the spelling `from` to the spelling `to`; returns an
/// empty name when the table does not have it.
GgufTranslation translated(std::span<const GgufName> names, std::string_view name, const char* GgufName::*from,
                           const char* GgufName::*to) {
  const std::size_t dot = ending_of(name);
  for (const GgufName& row : names) {
    if (row.whole && name == row.*from) return {row.*to, row.in_heads};
    if (!row.whole && dot != std::string_view::npos && name.substr(0, dot) == row.*from) {
      return {row.*to + std::string(name.substr(dot)), row.in_heads};
    }
  }
  return {};
}

/// Splits "<before>3.rest" at the number; returns the number with its dot, or nothing.
std::string_view layer_of(std::string_view name, std::string_view before) {
  if (!name.starts_with(before)) return {};
  name.remove_prefix(before.size());
  const std::size_t end = name.find('.');
  if (end == std::string_view::npos) return {};
  const std::string_view number = name.substr(0, end);
  const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos &&
                         (number == "0" || number[0] != '0');
  return is_number ? name.substr(0, end + 1) : std::string_view();
}

/// Translates a whole name between two spellings, in which names of layers begin differently.
GgufTranslation translated(const GgufNames& table, std::string_view name, std::string_view layers_from,
                           std::string_view layers_to, const char* GgufName::*from, const char* GgufName::*to) {
  const std::string_view layer = layer_of(name, layers_from);
  if (layer.empty()) return translated(table.whole, name, from, to);
  GgufTranslation found = translated(table.layer, name.substr(layers_from.size() + layer.size()), from, to);
  if (!found.name.empty()) found.name = std::string(layers_to) + std::string(layer) + found.name;
  return found;
}

constexpr std::string_view gguf_layers = "blk.";

}  // namespace

const GgufNames* find_gguf_names(std::string_view architecture) noexcept {
  const auto* const found = std::ranges::find(architectures, architecture, &GgufNames::architecture);
  return found == std::end(architectures) ? nullptr : found;
}

const GgufNames& gguf_names_of(const Gguf& file) {
  const std::string key = "general.architecture";
  const std::string* const name = file.find_text(key);
  if (name == nullptr) file.fail(key, "is missing; the file is not a model");
  if (const GgufNames* const found = find_gguf_names(*name)) return *found;
  std::string known;
  for (const GgufNames& table : architectures) known += (known.empty() ? "" : ", ") + std::string(table.architecture);
  file.fail(key, in_quotes(*name) + " is not implemented; implemented are " + known);
}

GgufTranslation translated(const GgufNames& table, const std::string& name) {
  return translated(table, name, gguf_layers, table.layers, &GgufName::gguf, &GgufName::hugging_face);
}

std::string name_in_gguf(const GgufNames& table, const std::string& hugging_face) {
  const std::string found =
      translated(table, hugging_face, table.layers, gguf_layers, &GgufName::hugging_face, &GgufName::gguf).name;
  return found.empty() ? hugging_face : found;
}

}  // namespace draftproof
