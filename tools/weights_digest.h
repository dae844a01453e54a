// SPDX-License-Identifier: MIT
// A digest that identifies the weights of a model: a trace states the weights it was made with.
#pragma once

#include <filesystem>
#include <string>

namespace draftproof {

/// Returns "sha256:" and the digest of a .gguf file or, for a folder, of config.json and all .safetensors files in it,
/// concatenated in ascending order of their names. Reads all bytes: about six seconds per gigabyte.
std::string weights_digest(const std::filesystem::path& target);

}  // namespace draftproof
