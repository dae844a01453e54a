// SPDX-License-Identifier: MIT
// EAGLE-3 drafts, in the form of llama.cpp: a layer id names what enters that layer, and d2t holds tokens of the
// target, not offsets.
#include <nlohmann/json.hpp>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr GgufName whole_names[] = {
    {"fc", "fc"},
    {"enc.output_norm", "input_norm"},
    {"output_norm", "norm"},
    // Where the draft has its own embedding, head or vocabulary.
    {"token_embd", "embed_tokens"},
    {"output", "lm_head"},
    {"d2t", "d2t", false, true},
};

constexpr GgufName layer_names[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_norm_2", "hidden_norm"},
    {"attn_q", "self_attn.q_proj", true},
    {"attn_k", "self_attn.k_proj", true},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

constexpr std::string_view own_keys[] = {"target_layers", "target_hidden_size", "norm_before_residual",
                                         "norm_before_fc"};

Json read(const Gguf& file) {
  const GgufKeys keys(file);
  keys.refuse_all_but({transformer_keys, own_keys});
  ordered_json config = transformer_fields(file, keys, "llama", "LlamaForCausalLMEagle3");
  std::map<std::string, std::string> names;
  const auto put = [&](const char* field, const char* key, ordered_json value) {
    config[field] = std::move(value);
    names[field] = keys.whole(key);
  };
  if (keys.size("block_count") != 1) keys.fail("block_count", "must be 1, which is what llama.cpp computes");
  const auto layers = keys.find_integers("target_layers");
  if (!layers) keys.fail("target_layers", "is missing; the file does not say which layers of its target it reads");
  put("eagle_aux_hidden_state_layer_ids", "target_layers", *layers);
  put("target_hidden_size", "target_hidden_size", keys.size("target_hidden_size"));
  for (const char* norm : {"norm_before_residual", "norm_before_fc"}) {
    put(norm, norm, keys.find_boolean(norm).value_or(false));
  }
  if (const auto map = file.tensors().find("d2t"); map != file.tensors().end() && map->second.shape.size() == 1) {
    config["draft_vocab_size"] = map->second.shape[0];
  }
  return as_json(file, keys, config, {}, std::move(names));
}

/// llama.cpp reads three layers of the target, and computes one layer and no more than this.
void refuse_what_has_no_key(const GgufModel& model) {
  if (model.depth() != 1) {
    model.find("num_hidden_layers").value_or(model.config).fail("must be 1 in a GGUF of eagle3; use the folder");
  }
  for (const char* name : {"mask_token_id", "pard_token", "ptd_token_id"}) {
    if (const auto found = model.find(name)) {
      found->fail("says that it drafts in parallel, which has no form in a GGUF of eagle3; use the folder");
    }
  }
  for (const char* name : {"fc_norm", "norm_output", "return_hidden_post_norm", "attention_bias", "mlp_bias"}) {
    if (const auto found = model.find(name); found && found->boolean()) found->fail("has no form in a GGUF of eagle3");
  }
  if (model.target_layers.size() != 3) {
    model.find("eagle_aux_hidden_state_layer_ids").value_or(model.config).fail("must name three layers in a GGUF");
  }
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  refuse_what_has_no_key(model);
  write_plain_transformer(model, keys);
  keys.integers("target_layers", model.target_layers);
  keys.size("target_hidden_size", model.target_features() / std::ssize(model.target_layers));
  for (const char* norm : {"norm_before_residual", "norm_before_fc"}) {
    const auto said = model.find(norm);
    keys.truth(norm, said && said->boolean());
  }
}

}  // namespace

const GgufFamily gguf_eagle3 = {
    .architecture = "eagle3",
    .names = {.whole = whole_names, .layer = layer_names, .layers = "layers.", .pairs_rows = true},
    .read = read,
    .write = write};

}  // namespace draftproof
