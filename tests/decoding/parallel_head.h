// SPDX-License-Identifier: MIT
// An EAGLE-3 head as one that drafts in parallel, for targets without a shipped one; its first draft token is that of
// the head it was made of, and its masks were trained for nothing.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "ref/formats/checkpoint.h"
#include "tests/folder.h"
#include "tests/formats/files.h"

namespace draftproof::test {

/// Writes it into `folder`, which is empty, and returns its name as a draft.
inline std::string parallel_head(const std::filesystem::path& eagle3, const std::filesystem::path& folder) {
  const Checkpoint from(eagle3);
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : from.tensors()) {
    tensors.push_back({name, tensor.type_name, tensor.shape, stored_bytes(tensor)});
  }
  const std::int64_t taps = from.tensors().at("fc.weight").shape[1];
  std::vector<float> mask;
  for (std::int64_t i = 0; i < taps; ++i) mask.push_back(static_cast<float>(i * 37 % 64) / 32 - 1);
  tensors.push_back({"mask_hidden", "F32", {1, 1, taps}, bytes_of(mask)});
  put(folder / "model.safetensors", safetensors(tensors));
  auto config = nlohmann::json::parse(bytes_of_file(eagle3 / "config.json"));
  config["ptd_token_id"] = 7;
  put(folder / "config.json", config.dump());
  return "eagle3:" + folder.string();
}

}  // namespace draftproof::test
