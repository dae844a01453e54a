// SPDX-License-Identifier: MIT
// Hugging Face folders whose weights are quantized.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "ref/formats/json.h"
#include "ref/formats/stored_tensor.h"

namespace draftproof {

/// What a folder says of its quantization.
struct FolderQuantization {
  std::string scheme;         // in words
  std::string activations;    // what engines do to activations that we do not; empty: nothing
  std::uint64_t ignored = 0;  // scales of activations and of keys and values
};

/// Throws Error when this config.json alone does not say what its weights become: their scheme is not read, or it
/// depends on their tensors. FP8 and MXFP4 always become bf16.
void require_known_weights(const Json& config);

/// Puts together the matrices of a folder with this config.json; nothing when it is not quantized. Throws Error when
/// the scheme is not read or the folder contradicts itself.
std::optional<FolderQuantization> read_quantization(const std::filesystem::path& folder, const Json& config,
                                                    std::map<std::string, StoredTensor>& tensors);

}  // namespace draftproof
