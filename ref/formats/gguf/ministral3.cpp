// SPDX-License-Identifier: MIT
// Ministral 3: Mistral whose queries grow with their position.
#include <nlohmann/json.hpp>
#include <utility>

#include "ref/formats/gguf/transformer.h"

namespace draftproof {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view own_keys[] = {"attention.temperature_scale"};
constexpr GgufField own_fields[] = {{"rope_parameters.llama_4_scaling_beta", "attention.temperature_scale"}};

void put_temperature(const GgufKeys& keys, ordered_json& config) {
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

Json read(const Gguf& file) {
  return read_gguf_target(file, {"ministral3", "Ministral3ForCausalLM", own_keys, own_fields, put_temperature});
}

void write(const GgufModel& model, GgufKeyWriter& keys) {
  write_plain_transformer(model, keys);
  const auto beta = rope_block(model.config).find("llama_4_scaling_beta");
  if (beta) keys.number("attention.temperature_scale", beta->number());
}

constexpr const char* model_types[] = {"ministral3", "mistral3"};
constexpr GgufNames names = {.whole = transformer_whole, .layer = transformer_layer, .pairs_rows = true};

}  // namespace

const GgufFamily gguf_ministral3 = {"mistral3", model_types, names, read, write};

}  // namespace draftproof
