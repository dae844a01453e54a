// SPDX-License-Identifier: MIT
// A model that no memory has room for.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/tools/command.h"

namespace draftproof::test {

/// A folder with the configuration of a shipped model, whose one weight of 4 TiB takes no room on the disk.
inline std::string vast_model(const Folder& folder, const std::string& like) {
  const auto path = folder.path() / like;
  files::create_directory(path);
  files::copy(fixture("models/" + like) + "/config.json", path / "config.json");
  const std::uint64_t bytes = std::uint64_t{1} << 42;
  std::string header = R"({"a": {"dtype": "F32", "shape": [1048576, 1048576], "data_offsets": [0, )" +
                       std::to_string(bytes) + "]}}";
  const std::uint64_t length = header.size();
  std::string start(sizeof length, '\0');
  std::memcpy(start.data(), &length, sizeof length);
  put(path / "model.safetensors", start + header);
  files::resize_file(path / "model.safetensors", sizeof length + length + bytes);
  return path.string();
}

}  // namespace draftproof::test
