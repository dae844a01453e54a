// SPDX-License-Identifier: MIT
#include "oracle/twin/facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "kernels/math64.h"

namespace draftproof::twin {
namespace {

int integer(const Json& config, const char* field) { return static_cast<int>(config.at(field).integer(0, 1 << 30)); }

double number(const Json& config, const char* field, double absent) {
  const auto value = config.find(field);
  return value ? value->number() : absent;
}

bool says(const Json& config, const char* field, bool absent = false) {
  const auto value = config.find(field);
  return value ? value->boolean() : absent;
}

bool is(const std::string& family, std::initializer_list<const char*> list) {
  return std::ranges::find(list, family) != list.end();
}

/// The block that stretches a RoPE, unless it is plain.
std::optional<Json> stretching(const std::optional<Json>& block) {
  for (const char* name : {"rope_type", "type"}) {
    const auto kind = block ? block->find(name) : std::nullopt;
    if (kind) return kind->string() == "default" ? std::nullopt : block;
  }
  return std::nullopt;
}

RopeFacts rope_facts(const Json& config, const std::optional<Json>& block, double absent) {
  const auto stated = block ? block->find("rope_theta") : std::nullopt;
  return {stated ? stated->number() : number(config, "rope_theta", absent), stretching(block)};
}

std::vector<RopeFacts> ropes_of(const Json& config, const std::string& family) {
  const auto all = config.find("rope_parameters");
  const auto old = config.find("rope_scaling");
  if (family == "olmo3") {
    constexpr double theta = 500000;
    const auto full = all ? all->find("full_attention") : old;
    return {rope_facts(config, full, theta),
            rope_facts(config, all ? all->find("sliding_attention") : std::nullopt, theta)};
  }
  RopeFacts rope = rope_facts(config, all ? all : old, 10000);
  rope.backwards = family == "nanochat";
  return {rope};
}

bool slides(const Json& config, const std::string& family, int layer) {
  if (const auto types = config.find("layer_types")) {
    return (*types)[static_cast<std::size_t>(layer)].string() == "sliding_attention";
  }
  if (is(family, {"olmo3", "cohere2"})) return (layer + 1) % 4 != 0;
  if (family == "gpt_oss") return layer % 2 == 0;
  return is(family, {"mistral", "mixtral", "phi3", "starcoder2"}) && config.find("sliding_window");
}

/// Whether layers of Nemotron-H are mixtures of experts.
bool has_experts(const Json& config) {
  const auto pattern = config.find("hybrid_override_pattern");
  if (pattern) return pattern->string().find('E') != std::string::npos;
  const Json types = config.at("layers_block_type");
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].string() == "moe") return true;
  }
  return false;
}

int depth(const Json& config, const std::string& family) {
  if (family != "nemotron_h") return integer(config, "num_hidden_layers");
  const auto pattern = config.find("hybrid_override_pattern");
  return static_cast<int>(pattern ? pattern->string().size() : config.at("layers_block_type").size());
}

void add_falcon_factors(const Json& config, DecoderFacts& facts) {
  const double read = number(config, "attention_in_multiplier", 1);
  facts.attention_scale =
      read * read * number(config, "key_multiplier", 1) / std::sqrt(static_cast<double>(facts.head_dim));
  facts.attention_share = read * number(config, "attention_out_multiplier", 1);
  facts.state_share = number(config, "ssm_out_multiplier", 1);
  facts.embedding_scale = number(config, "embedding_multiplier", 1);
  facts.logit_scale = number(config, "lm_head_multiplier", 1);
  facts.norm_before_gate = says(config, "mamba_norm_before_gate", true);
  const auto parts = config.find("ssm_multipliers");
  for (std::size_t i = 0; i < facts.state_factors.size(); ++i) {
    facts.state_factors[i] = number(config, "ssm_in_multiplier", 1) * (parts ? (*parts)[i].number() : 1);
  }
  if (const auto of_mlp = config.find("mlp_multipliers")) {
    facts.gate_factor = (*of_mlp)[0].number();
    facts.mlp_share = (*of_mlp)[1].number();
  }
}

GrowthFacts growth_of(const Json& config, const std::string& family) {
  if (family == "llama4_text") {
    const auto tuned = config.find("attn_temperature_tuning");
    if (tuned && tuned->is_boolean() && !tuned->boolean()) return {};
    return {number(config, "attn_scale", 0.1), static_cast<std::int64_t>(number(config, "floor_scale", 8192)), 1};
  }
  const auto block = config.find("rope_parameters");
  const auto beta = block ? block->find("llama_4_scaling_beta") : std::nullopt;
  if (!beta) return {};
  return {beta->number(), block->at("original_max_position_embeddings").integer(1, 1 << 30), 0};
}

bool turns(const Json& config, const std::string& family, int layer) {
  if (is(family, {"nemotron_h", "jamba", "kimi_linear"})) return false;
  const bool windows = config.find("sliding_window").has_value();
  if (family == "cohere2" || (family == "exaone4" && windows)) return slides(config, family, layer);
  if (family == "granitemoehybrid") {
    const auto kind = config.find("position_embedding_type");
    return kind && kind->string() == "rope";
  }
  if (!is(family, {"smollm3", "llama4_text"})) return true;
  if (const auto listed = config.find("no_rope_layers"); listed && listed->size() > 0) {
    return listed->integers(0, 1)[static_cast<std::size_t>(layer)] == 1;
  }
  return (layer + 1) % static_cast<int>(number(config, "no_rope_layer_interval", 4)) != 0;
}

LatentFacts latent_facts(const Json& config) {
  return {.rank = integer(config, "kv_lora_rank"),
          .turned = integer(config, "qk_rope_head_dim"),
          .unturned = integer(config, "qk_nope_head_dim"),
          .value = integer(config, "v_head_dim"),
          .epsilon = number(config, "latent_norm_eps", 1e-6)};
}

/// Scores of stretched positions are larger.
double latent_scale(const Json& config) {
  const double usual = 1 / std::sqrt(integer(config, "qk_rope_head_dim") + integer(config, "qk_nope_head_dim"));
  const auto all = config.find("rope_parameters");
  const auto block = stretching(all ? all : config.find("rope_scaling"));
  const double weight = block ? number(*block, "mscale_all_dim", 0) : 0;
  if (weight == 0) return usual;
  const double factor = block->at("factor").number();
  const double magnitude = factor <= 1 ? 1 : 0.1 * weight * log64(factor) + 1;
  return usual * magnitude * magnitude;
}

}  // namespace

DecoderFacts decoder_facts(const Json& config) {
  const std::string family = config.at("model_type").string();
  DecoderFacts facts;
  if (family != "mamba2") facts.heads = integer(config, "num_attention_heads");
  facts.kv_heads = static_cast<int>(number(config, "num_key_value_heads", family == "smollm3" ? 4 : facts.heads));
  facts.head_dim = config.find("head_dim")             ? integer(config, "head_dim")
                   : config.find("attention_head_dim") ? integer(config, "attention_head_dim")
                                                       : integer(config, "hidden_size") / facts.heads;
  facts.epsilon = number(
      config,
      is(family, {"lfm2", "lfm2_moe"})       ? "norm_eps"
      : is(family, {"mamba2", "nemotron_h"}) ? "layer_norm_epsilon"
                                             : "rms_norm_eps",
      is(family, {"olmo2",    "olmo3",        "olmoe",     "phi3",       "mixtral",       "exaone4",     "ernie4_5",
                  "arcee",    "lfm2",         "lfm2_moe",  "mamba2",     "apertus",       "bitnet",      "gpt_oss",
                  "glm4_moe", "ernie4_5_moe", "falcon_h1", "nemotron_h", "glm4_moe_lite", "llama4_text", "kimi_linear"})
          ? 1e-5
          : 1e-6);
  const auto block = config.find("rope_parameters");
  const auto part = block ? block->find("partial_rotary_factor") : std::nullopt;
  const double share = part ? part->number() : number(config, "partial_rotary_factor", 1);
  facts.turned = static_cast<int>(facts.head_dim * share) / 2 * 2;
  facts.interleaved = is(family, {"glm4", "cohere2", "ernie4_5", "ernie4_5_moe", "llama4_text"});
  facts.layer_norm = is(family, {"cohere2", "stablelm", "starcoder2", "phi"});
  facts.gelu = is(family, {"starcoder2", "phi"});
  facts.relu2 = family == "bitnet" && config.at("hidden_act").string() == "relu2";
  const char* const epsilon = family == "starcoder2" ? "norm_epsilon" : "layer_norm_eps";
  if (facts.layer_norm) facts.epsilon = number(config, epsilon, 1e-5);
  facts.embedding_norm = family == "nanochat";
  if (family == "nanochat" && (!config.has("final_logit_softcapping") || config.find("final_logit_softcapping"))) {
    facts.logit_cap = number(config, "final_logit_softcapping", 15);
  }
  if (family == "cohere2") facts.logit_scale = number(config, "logit_scale", 0.0625);
  if (is(family, {"granite", "granitemoe", "granitemoehybrid"})) {
    facts.attention_scale = number(config, "attention_multiplier", 1);
    facts.embedding_scale = number(config, "embedding_multiplier", 1);
    facts.residual_scale = number(config, "residual_multiplier", 1);
    facts.logit_scale = 1 / number(config, "logits_scaling", 1);
  }
  const bool kimi = family == "kimi_linear";
  facts.chosen = static_cast<int>(number(config,
                                         family == "ernie4_5_moe" ? "moe_k"
                                         : kimi                   ? "num_experts_per_token"
                                                                  : "num_experts_per_tok",
                                         0));
  if (family == "nemotron_h" && !has_experts(config)) facts.chosen = 0;
  const bool latent = is(family, {"deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "kimi_linear"});
  if (latent) {
    facts.latent = latent_facts(config);
    facts.head_dim = facts.turned = facts.latent.turned;  // what RoPE is told of heads
    facts.interleaved = !kimi && says(config, "rope_interleave", true);
    facts.attention_scale = latent_scale(config);
  }
  if (family == "deepseek_v2") facts.best_of_group = 1;
  facts.sigmoid_scores = is(family, {"glm4_moe", "minimax_m2", "lfm2_moe", "nemotron_h", "deepseek_v3", "kimi_k2",
                                     "glm4_moe_lite", "llama4_text", "kimi_linear"});
  facts.weighted_inputs = family == "llama4_text";
  if (family == "lfm2_moe") facts.sum_added = 1e-6;
  if (family == "ernie4_5_moe") facts.sum_min = number(config, "moe_norm_min", 1e-12);
  if (family == "falcon_h1") add_falcon_factors(config, facts);
  if (latent || is(family, {"glm4_moe", "nemotron_h"})) {
    facts.sum_added = 1e-20;
    facts.groups = static_cast<int>(number(config, kimi ? "num_expert_group" : "n_group", 1));
    facts.groups_chosen = static_cast<int>(number(config, "topk_group", 1));
  }
  facts.normalized = says(config, kimi ? "moe_renormalize" : "norm_topk_prob",
                          is(family, {"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next", "granitemoe", "granitemoehybrid",
                                      "mixtral", "lfm2_moe", "gpt_oss", "glm4_moe", "minimax_m2", "ernie4_5_moe",
                                      "nemotron_h", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "kimi_linear"}));
  const char* const groups = is(family, {"mamba2", "nemotron_h"}) ? "n_groups" : "mamba_n_groups";
  facts.state_groups = static_cast<int>(number(config, groups, 1));
  facts.routed_scale = number(config, "routed_scaling_factor", 1);
  if (family == "gpt_oss") {
    facts.swiglu_alpha = number(config, "swiglu_alpha", 1.702);
    facts.swiglu_limit = number(config, "swiglu_limit", 7);
  }
  facts.growth = growth_of(config, family);
  facts.ropes = ropes_of(config, family);
  for (int i = 0; i < depth(config, family); ++i) {
    if (family == "llama4_text") {
      const bool turned = turns(config, family, i);
      facts.layers.push_back(
          {.window = turned ? static_cast<int>(number(config, "attention_chunk_size", 8192)) : unlimited,
           .chunked = turned,
           .grows = !turned,
           .rope = turned ? 0 : -1});
      continue;
    }
    const bool short_sighted = slides(config, family, i);
    facts.layers.push_back({.window = short_sighted ? integer(config, "sliding_window") : unlimited,
                            .grows = facts.growth.beta != 0,
                            .rope = !turns(config, family, i)            ? -1
                                    : family == "olmo3" && short_sighted ? 1
                                                                         : 0});
  }
  return facts;
}

namespace {

/// Parts of names, from one checkpoint or another to those of Llama.
constexpr std::array<std::pair<const char*, const char*>, 31> renamed = {
    {{"block_sparse_moe.router.layer.", "mlp.gate."},
     {"feed_forward.router.", "mlp.gate."},
     {"mlp.router.", "mlp.gate."},
     {"self_attn.sinks", "self_attn.attention_sink_bias"},
     {"block_sparse_moe.", "mlp."},
     {".w1.", ".gate_proj."},
     {".w3.", ".up_proj."},
     {".w2.", ".down_proj."},
     {"mlp.c_fc.", "mlp.up_proj."},
     {"mlp.c_proj.", "mlp.down_proj."},
     {".operator_norm.", ".input_layernorm."},
     {".ffn_norm.", ".post_attention_layernorm."},
     {".pre_ff_layernorm.", ".post_attention_layernorm."},
     {".feed_forward.", ".mlp."},
     {".q_layernorm.", ".q_norm."},
     {".k_layernorm.", ".k_norm."},
     {".self_attn.out_proj.", ".self_attn.o_proj."},
     {"embedding_norm.", "norm."},
     {"norm_f.", "norm."},
     {"embeddings.", "embed_tokens."},
     {".mixer.", ".mamba."},
     {"mlp.fc1.", "mlp.up_proj."},
     {"mlp.fc2.", "mlp.down_proj."},
     {"self_attn.dense.", "self_attn.o_proj."},
     {"final_layernorm.", "norm."},
     {".attention_layernorm.", ".input_layernorm."},
     {".feedforward_layernorm.", ".post_attention_layernorm."},
     {"mlp.shared_experts.", "mlp.shared_expert."},
     {"mlp.moe_statics.e_score_correction_bias", "mlp.gate.e_score_correction_bias"},
     {"mlp.e_score_correction_bias", "mlp.gate.e_score_correction_bias"},
     {"mlp.expert_bias", "mlp.gate.e_score_correction_bias"}}};

NamedTensor rows_of(const NamedTensor& all, std::size_t first, std::size_t count) {
  const auto width = static_cast<std::size_t>(all.width);
  const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(first * width);
  return {{begin, begin + static_cast<std::ptrdiff_t>(count * width)}, all.width, all.format};
}

/// A name of GLM-4 as Gemma has it.
std::string sandwiched(std::string name) {
  for (const auto& [from, to] : {std::pair("post_attention_layernorm", "pre_feedforward_layernorm"),
                                 {"post_self_attn_layernorm", "post_attention_layernorm"},
                                 {"post_mlp_layernorm", "post_feedforward_layernorm"}}) {
    const std::size_t at = name.find(from);
    if (at != std::string::npos) return name.replace(at, std::string(from).size(), to);
  }
  return name;
}

/// A name of Mamba-2, whose only norm of a layer is called nothing else.
std::string with_layer_norm(const std::string& name) {
  const std::size_t at = name.find(".norm.");
  const bool of_layer = name.starts_with("layers.") && at != std::string::npos && name.find(".mamba.") > at;
  return of_layer ? name.substr(0, at) + ".input_layernorm." + name.substr(at + std::string(".norm.").size()) : name;
}

/// A name of Nemotron-H, which calls attention, MLPs and experts the mixer of their layer. Behind the last layer of an
/// MTP head is a norm.
std::string without_mixer(std::string name) {
  if (name.starts_with("mtp.layers.")) {
    if (name.ends_with(".final_layernorm.weight")) return "mtp.norm.weight";
    if (name.ends_with(".norm.weight")) return name.insert(name.rfind("norm."), "input_layer");
  }
  constexpr std::string_view before = ".mixer.";
  const std::size_t at = name.find(before);
  if (at == std::string::npos) return name;
  const std::string part = name.substr(at + before.size());
  const auto begins = [&](const char* with) { return part.starts_with(with); };
  if (begins("q_proj") || begins("k_proj") || begins("v_proj") || begins("o_proj")) {
    return name.replace(at, before.size(), ".self_attn.");
  }
  const bool mlp = begins("up_proj") || begins("down_proj") || begins("gate.") || begins("experts.") ||
                   begins("shared_experts.") || begins("fc1_latent_proj") || begins("fc2_latent_proj");
  return mlp ? name.replace(at, before.size(), ".mlp.") : name;
}

/// A name of Granite 4: its MLP is the only one of a layer, or is beside experts.
std::string with_shared_mlp(std::string name, bool experts) {
  for (const auto& [from, to] : {std::pair("shared_mlp.input_linear", "mlp.gate_up_proj"),
                                 {"shared_mlp.output_linear", "mlp.down_proj"},
                                 {"shared_mlp.gate_proj", "mlp.gate_proj"},  // of a GGUF
                                 {"shared_mlp.up_proj", "mlp.up_proj"},
                                 {"shared_mlp.down_proj", "mlp.down_proj"}}) {
    const std::size_t at = name.find(from);
    if (at == std::string::npos) continue;
    const std::string within = std::string(to).replace(0, 4, experts ? "mlp.shared_mlp." : "mlp.");
    return name.replace(at, std::string(from).size(), within);
  }
  return name;
}

int layer_of(const std::string& name) { return std::stoi(name.substr(std::string("layers.").size())); }

/// Of every head, puts the rows that RoPE turns at even places before those at odd ones.
void separate_pairs(const DecoderFacts& facts, NamedTensor& tensor) {
  const std::vector<float> stored = tensor.values;
  const auto inputs = static_cast<std::size_t>(tensor.width);
  const std::size_t width = inputs == stored.size() ? 1 : inputs;  // of a bias each value is a row
  const auto d = static_cast<std::size_t>(facts.head_dim);
  const auto half = static_cast<std::size_t>(facts.turned / 2);
  for (std::size_t row = 0; row < stored.size() / width; ++row) {
    const std::size_t i = row % d;
    const std::size_t from = i >= 2 * half ? i : i < half ? 2 * i : 2 * (i - half) + 1;
    const auto begin = stored.begin() + static_cast<std::ptrdiff_t>((row - i + from) * width);
    std::copy_n(begin, width, tensor.values.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
}

/// Adds a tensor that holds several, in equal or in other parts.
void add_parts(std::map<std::string, NamedTensor>& to, const std::string& prefix, const NamedTensor& all,
               std::initializer_list<std::pair<const char*, std::size_t>> parts, std::size_t first = 0) {
  for (const auto& [name, rows] : parts) {
    to[prefix + name + ".weight"] = rows_of(all, first, rows);
    first += rows;
  }
}

/// Adds a tensor that has the rows of several parts for each of `heads` heads, those of one head together.
void add_parts_of_heads(std::map<std::string, NamedTensor>& to, const std::string& prefix, const NamedTensor& all,
                        std::size_t heads, std::initializer_list<std::pair<const char*, std::size_t>> parts) {
  const std::size_t each = all.values.size() / static_cast<std::size_t>(all.width) / heads;
  std::size_t before = 0;
  for (const auto& [name, rows] : parts) {
    NamedTensor& part = to[prefix + name + ".weight"];
    for (std::size_t head = 0; head < heads; ++head) {
      const NamedTensor more = rows_of(all, head * each + before, rows);
      part.width = more.width;
      part.format = more.format;
      part.values.insert(part.values.end(), more.values.begin(), more.values.end());
    }
    before += rows;
  }
}

/// Splits q, k, v and z of a gated delta net, or b and a, which are stored key head by key head.
void add_projections(std::map<std::string, NamedTensor>& to, const std::string& name, const NamedTensor& all,
                     const Json& config) {
  const auto size = [&](const char* field) { return static_cast<std::size_t>(integer(config, field)); };
  const std::size_t heads = size("linear_num_key_heads");
  const std::size_t group = size("linear_num_value_heads") / heads;
  const std::size_t key = size("linear_key_head_dim");
  const std::size_t values = group * size("linear_value_head_dim");
  const std::string prefix = name.substr(0, name.rfind("in_proj_"));
  if (name.ends_with("in_proj_ba.weight")) {
    add_parts_of_heads(to, prefix, all, heads, {{"in_proj_b", group}, {"in_proj_a", group}});
    return;
  }
  std::map<std::string, NamedTensor> parts;
  add_parts_of_heads(parts, "", all, heads, {{"q", key}, {"k", key}, {"v", values}, {"z", values}});
  NamedTensor& qkv = to[prefix + "in_proj_qkv.weight"];
  qkv = parts["q.weight"];
  for (const char* part : {"k.weight", "v.weight"}) {
    qkv.values.insert(qkv.values.end(), parts[part].values.begin(), parts[part].values.end());
  }
  to[prefix + "in_proj_z.weight"] = parts["z.weight"];
}

bool is_bias_of_experts(const std::string& name) {
  return name.find(".mlp.experts.") != std::string::npos && name.ends_with("bias");
}

/// [..][columns][rows] of [..][rows][columns]
NamedTensor transposed(const NamedTensor& all, const std::vector<std::int64_t>& shape) {
  NamedTensor turned = {all.values, static_cast<int>(shape[1]), all.format};
  const auto rows = static_cast<std::size_t>(shape[1]);
  const auto columns = static_cast<std::size_t>(shape[2]);
  for (std::size_t i = 0; i < turned.values.size(); ++i) {
    const std::size_t in_matrix = i % (rows * columns);
    turned.values[i - in_matrix + in_matrix % columns * rows + in_matrix / columns] = all.values[i];
  }
  return turned;
}

/// The rows of an expert at even places, then those at odd ones.
NamedTensor separated(const NamedTensor& all, std::size_t first, std::size_t count) {
  NamedTensor result = rows_of(all, first, count);
  const auto width = static_cast<std::size_t>(all.width);
  for (std::size_t row = 0; row < count; ++row) {
    const std::size_t from = first + row % (count / 2) * 2 + row / (count / 2);
    std::copy_n(all.values.begin() + static_cast<std::ptrdiff_t>(from * width), width,
                result.values.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  return result;
}

/// Adds a tensor of all experts of a layer, whose name has ".mlp.", expert by expert.
void add_experts(std::map<std::string, NamedTensor>& to, const std::string& family, const std::string& name,
                 const std::vector<std::int64_t>& shape, NamedTensor all) {
  const bool bias = is_bias_of_experts(name);
  const bool by_inputs = is(family, {"gpt_oss", "llama4_text"});
  if (by_inputs && !bias && !name.ends_with(".weight")) all = transposed(all, shape);
  if (bias) all.width = 1;
  const auto count = static_cast<std::size_t>(shape[0]);
  const std::size_t each = all.values.size() / static_cast<std::size_t>(all.width) / count;
  const bool down = name.find("down_proj") != std::string::npos || name.ends_with("output_linear.weight");
  const bool joined = name.find("gate_up_proj") != std::string::npos || name.ends_with("input_linear.weight");
  const bool up = !down && !joined && name.find("up_proj") != std::string::npos;
  for (std::size_t e = 0; e < count; ++e) {
    const std::string expert = name.substr(0, name.find(".mlp.") + 5) + "experts." + std::to_string(e) + ".";
    NamedTensor own = family == "gpt_oss" && joined ? separated(all, e * each, each) : rows_of(all, e * each, each);
    const std::string ending = bias ? ".bias" : ".weight";
    const auto put = [&](const char* part, std::size_t first, std::size_t rows) {
      NamedTensor& placed = to[expert + part + ending] = rows_of(own, first, rows);
      if (bias) placed.width = static_cast<int>(rows);
    };
    if (joined) {
      put("gate_proj", 0, each / 2);
      put("up_proj", each / 2, each / 2);
    } else {
      put(down ? "down_proj" : up ? "up_proj" : "gate_proj", 0, each);
    }
  }
}

/// Puts the keys' and values' matrices of heads together, which a GGUF has apart, the keys' transposed.
void join_latent_matrices(const DecoderFacts& facts, std::map<std::string, NamedTensor>& tensors) {
  const auto size = [](int count) { return static_cast<std::size_t>(count); };
  const std::size_t rank = size(facts.latent.rank), unturned = size(facts.latent.unturned);
  const std::size_t value = size(facts.latent.value) * rank;
  for (std::size_t i = 0; i < facts.layers.size(); ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".self_attn.";
    const auto keys = tensors.find(prefix + "k_b_proj.weight");
    if (keys == tensors.end()) continue;
    const NamedTensor& values = tensors.at(prefix + "v_b_proj.weight");
    NamedTensor both = {{}, facts.latent.rank, values.format};
    for (std::size_t head = 0; head < size(facts.heads); ++head) {
      for (std::size_t row = 0; row < unturned; ++row) {
        for (std::size_t column = 0; column < rank; ++column) {
          both.values.push_back(keys->second.values[(head * rank + column) * unturned + row]);
        }
      }
      const auto first = values.values.begin() + static_cast<std::ptrdiff_t>(head * value);
      both.values.insert(both.values.end(), first, first + static_cast<std::ptrdiff_t>(value));
    }
    tensors[prefix + "kv_b_proj.weight"] = both;
  }
}

/// Norms without weights are norms whose weights are 1: those of heads, in the layers that turn them.
void add_plain_head_norms(const DecoderFacts& facts, std::map<std::string, NamedTensor>& to) {
  const std::vector<float> ones(static_cast<std::size_t>(facts.head_dim), 1.0F);
  for (std::size_t i = 0; i < facts.layers.size(); ++i) {
    if (facts.layers[i].rope < 0) continue;
    for (const char* name : {"q_norm", "k_norm"}) {
      to["layers." + std::to_string(i) + ".self_attn." + name + ".weight"] = {ones, facts.head_dim, Format::f32};
    }
  }
}

/// The same, and all others.
void add_plain_norms(const DecoderFacts& facts, const Json& config, std::map<std::string, NamedTensor>& to) {
  const auto add = [&](const std::string& name, int width) {
    to[name + ".weight"] = {std::vector<float>(static_cast<std::size_t>(width), 1.0F), width, Format::f32};
  };
  const int hidden = integer(config, "hidden_size");
  add("norm", hidden);
  for (std::size_t i = 0; i < facts.layers.size(); ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(prefix + name, hidden);
  }
  add_plain_head_norms(facts, to);
}

/// The numbers of xIELU that a GGUF has in its metadata.
void add_activations(const DecoderFacts& facts, const Json& config, std::map<std::string, NamedTensor>& to) {
  for (const std::string name : {"alpha_p", "alpha_n", "beta", "eps"}) {
    for (std::size_t i = 0; i < facts.layers.size(); ++i) {
      const auto value = static_cast<float>(config.at("xielu_" + name)[i].number());
      to["layers." + std::to_string(i) + ".mlp.act_fn." + name] = {{value}, 1, Format::f32};
    }
  }
}

}  // namespace

std::map<std::string, NamedTensor> decoder_tensors(const Checkpoint& checkpoint, const Json& config) {
  const std::string family = config.at("model_type").string();
  const bool gemma = family.starts_with("gemma");
  const DecoderFacts facts = gemma ? DecoderFacts() : decoder_facts(config);
  std::map<std::string, NamedTensor> tensors;
  for (const auto& [stored, tensor] : checkpoint.tensors()) {
    if (!tensor.format) continue;  // integers
    const NamedTensor values = {checkpoint.floats(stored, tensor.shape),
                                tensor.shape.empty() ? 1 : static_cast<int>(tensor.shape.back()), *tensor.format};
    std::string name = stored.starts_with("model.") ? stored.substr(6) : stored;
    if (family == "nemotron_h") name = without_mixer(name);
    for (const auto& [from, to] : renamed) {
      if (const std::size_t at = name.find(from); at != std::string::npos)
        name.replace(at, std::string(from).size(), to);
    }
    if (family == "glm4") name = sandwiched(name);
    if (is(family, {"mamba2", "nemotron_h"})) name = with_layer_norm(name);
    if (family == "granitemoehybrid") name = with_shared_mlp(name, facts.chosen > 0);
    const std::size_t rows = values.width == 0 ? 0 : values.values.size() / static_cast<std::size_t>(values.width);
    const auto ends = [&](const std::string& end) { return name.ends_with(end); };
    const auto before = [&](const std::string& end) { return name.substr(0, name.size() - end.size()); };
    if (ends("self_attn.qkv_proj.weight")) {
      const auto q = static_cast<std::size_t>(facts.heads * facts.head_dim);
      const auto kv = static_cast<std::size_t>(facts.kv_heads * facts.head_dim);
      add_parts(tensors, before("qkv_proj.weight"), values, {{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}});
    } else if (ends("in_proj_qkvz.weight") || ends("in_proj_ba.weight")) {
      add_projections(tensors, name, values, config);
    } else if (ends("self_attn.qkv_proj.bias")) {
      const auto q = static_cast<std::ptrdiff_t>(facts.heads * facts.head_dim);
      const auto kv = static_cast<std::ptrdiff_t>(facts.kv_heads * facts.head_dim);
      auto next = values.values.begin();
      for (const auto& [part, width] : {std::pair("q_proj.bias", q), {"k_proj.bias", kv}, {"v_proj.bias", kv}}) {
        tensors[before("qkv_proj.bias") + part] = {{next, next + width}, static_cast<int>(width), values.format};
        next += width;
      }
    } else if (ends("mlp.gate_up_proj.weight")) {
      add_parts(tensors, before("gate_up_proj.weight"), values, {{"gate_proj", rows / 2}, {"up_proj", rows / 2}});
    } else if (!gemma && name.find(".mlp.") != std::string::npos &&
               (tensor.shape.size() == 3 || (tensor.shape.size() == 2 && is_bias_of_experts(name)))) {
      add_experts(tensors, family, name, tensor.shape, values);
    } else {
      tensors[name] = values;
    }
  }
  if (family == "nanochat") add_plain_norms(facts, config, tensors);
  if (facts.latent.rank > 0) join_latent_matrices(facts, tensors);
  if (family == "llama4_text" && says(config, "use_qk_norm", true)) add_plain_head_norms(facts, tensors);
  if (family == "apertus" && checkpoint.metadata() != nullptr) add_activations(facts, config, tensors);
  for (auto& [name, tensor] : tensors) {
    const bool projects =
        name.find("self_attn.q_proj.") != std::string::npos || name.find("self_attn.k_proj.") != std::string::npos;
    const bool of_head = name.starts_with("mtp_block.");  // of ERNIE
    const bool turned = of_head || (name.starts_with("layers.") && turns(config, family, layer_of(name)));
    if (facts.interleaved && facts.latent.rank == 0 && projects && turned) separate_pairs(facts, tensor);
  }
  return tensors;
}

}  // namespace draftproof::twin
