// SPDX-License-Identifier: MIT
// A DFlash draft with attention sinks, made of one without.
#pragma once

#include "ref/formats/checkpoint.h"
#include "tests/formats/files.h"

namespace draftproof::test {

/// A copy of a DFlash draft with a sink in every head, from far below all scores to far above them.
inline void copy_with_sinks(const std::filesystem::path& original, const std::filesystem::path& copy) {
  const Checkpoint from(original);
  const std::int64_t heads = from.config().at("num_attention_heads").integer(1, 1000);
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : from.tensors()) {
    tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
  }
  for (std::int64_t i = 0; i < from.config().at("num_hidden_layers").integer(1, 1000); ++i) {
    std::vector<float> sinks = {-30, 12};
    for (std::int64_t head = 2; head < heads; ++head) sinks.push_back(static_cast<float>((3 * i + head) % 7) / 2);
    tensors.push_back(
        {"layers." + std::to_string(i) + ".self_attn.attention_sink_bias", "F32", {heads}, bytes_of(sinks)});
  }
  std::ofstream(copy / "model.safetensors", std::ios::binary) << safetensors(tensors);
  std::string config = bytes_of_file(original / "config.json");
  const std::string block = "\"dflash_config\": {";
  config.replace(config.find(block), block.size(), block + "\"attention_sink_bias\": true, ");
  std::ofstream(copy / "config.json") << config;
}

}  // namespace draftproof::test
