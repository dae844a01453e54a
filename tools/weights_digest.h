// SPDX-License-Identifier: MIT
// A name for the weights of a model that is true of no other: a trace says with which ones it was made.
#pragma once

#include <filesystem>
#include <string>

namespace draftproof {

/// "sha256:" and the digest of a .gguf file; of a folder, of config.json and every .safetensors file in it, ascending
/// by name, one after the other. Reads all of them: about six seconds for each gigabyte.
std::string weights_digest(const std::filesystem::path& target);

}  // namespace draftproof
