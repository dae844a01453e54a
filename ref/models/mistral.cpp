// SPDX-License-Identifier: MIT
#include "ref/models/mistral.h"

namespace draftproof {
namespace {

constexpr int default_window = 4096;  // transformers' MistralConfig

}  // namespace

TransformerConfig describe_mistral(const Json& json) {
  TransformerConfig config = read_target_config(json);
  json.at("num_key_value_heads");  // transformers' default, 8, is no other family's
  for (const char* field : {"attention_bias", "mlp_bias"}) {
    if (const auto bias = json.find(field); bias && bias->boolean()) bias->fail("is not implemented; Mistral has none");
  }
  set_window(json, json.has("sliding_window") ? read_window(json) : default_window, config);
  return config;
}

}  // namespace draftproof
