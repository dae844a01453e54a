// SPDX-License-Identifier: MIT
// A model that no memory has room for.
#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/command.h"

namespace draftproof::test {

/// A folder like that of a shipped model, but far wider and with more tokens. Its one weight, an LM head of 4 TiB,
/// takes no room on the disk.
inline std::string vast_model(const Folder& folder, const std::string& like) {
  const auto path = folder.path() / like;
  files::create_directory(path);
  auto config = nlohmann::json::parse(text_of(fixture("models/" + like) + "/config.json"));
  for (const char* field : {"hidden_size", "vocab_size", "draft_vocab_size"}) {
    if (config.contains(field)) config[field] = 1 << 20;
  }
  put(path / "config.json", config.dump());
  const std::uint64_t bytes = std::uint64_t{1} << 42;
  std::string header = R"({"lm_head.weight": {"dtype": "F32", "shape": [1048576, 1048576], "data_offsets": [0, )" +
                       std::to_string(bytes) + "]}}";
  const std::uint64_t length = header.size();
  std::string start(sizeof length, '\0');
  std::memcpy(start.data(), &length, sizeof length);
  put(path / "model.safetensors", start + header);
  files::resize_file(path / "model.safetensors", sizeof length + length + bytes);
  return path.string();
}

}  // namespace draftproof::test
