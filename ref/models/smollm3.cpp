// SPDX-License-Identifier: MIT
// SmolLM3 (Hugging Face `smollm3`): Llama some of whose layers do not turn q and k: those that no_rope_layers marks
// with 0, or every no_rope_layer_interval-th. Source: transformers, models/smollm3.
#include "ref/models/decoder.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr int default_interval = 4;  // transformers' SmolLM3Config
constexpr Defaults defaults = {.kv_heads = 4};

TransformerConfig describe_model(const Json& json) {
  TransformerConfig config = read_target_config(json, defaults);
  require_rope_theta(json);
  const auto listed = json.find("no_rope_layers");
  std::vector<std::int64_t> turned;
  if (listed) turned = listed->integers(0, 1);
  if (listed && turned.size() < config.layers.size()) {
    listed->fail("must have a number for each of the " + std::to_string(config.depth()) + " layers");
  }
  const int interval = positive(json, "no_rope_layer_interval", default_interval);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const bool turns = listed ? turned[i] == 1 : (i + 1) % static_cast<std::size_t>(interval) != 0;
    if (!turns) std::get<AttentionLayer>(config.layers[i].mixer).rope = AttentionLayer::no_rope;
  }
  return config;
}

constexpr ArchitectureName names[] = {{"smollm3", "SmolLM3ForCausalLM"}};

}  // namespace

const Architecture smollm3_architecture = {.names = names, .describe = describe_model, .load = load_pre_norm_decoder};

}  // namespace draftproof
