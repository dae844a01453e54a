// SPDX-License-Identifier: MIT
// A DFlash draft with the two heads of DSpark. No such draft is shipped; these heads were trained for nothing.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "ref/formats/checkpoint.h"
#include "tests/formats/files.h"

namespace draftproof::test {

/// Writes it into `folder`, which is empty, and returns its name as a draft.
inline std::string markov_draft(const std::filesystem::path& dflash, const std::filesystem::path& folder) {
  constexpr std::int64_t rank = 64;
  const Checkpoint from(dflash);
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : from.tensors()) {
    tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
  }
  auto config = nlohmann::json::parse(bytes_of_file(dflash / "config.json"));
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t width) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * width; ++i) values.push_back(static_cast<float>(i * 37 % 64) / 512 - 0.0625F);
    tensors.push_back({name, "F32", {rows, width}, bytes_of(values)});
  };
  add("markov_head.markov_w1.weight", config["vocab_size"], rank);
  add("markov_head.markov_w2.weight", config["vocab_size"], rank);
  add("confidence_head.proj.weight", 1, config["hidden_size"].get<std::int64_t>() + rank);
  put(folder / "model.safetensors", safetensors(tensors));
  config["architectures"] = {"DSparkDraftModel"};
  config["dflash_config"].update({{"markov_rank", rank},
                                  {"markov_head_type", "vanilla"},
                                  {"enable_confidence_head", true},
                                  {"confidence_head_with_markov", true}});
  put(folder / "config.json", config.dump());
  return "dflash:" + folder.string();
}

}  // namespace draftproof::test
