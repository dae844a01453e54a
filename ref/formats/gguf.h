// SPDX-License-Identifier: MIT
// GGUF metadata (versions 2 and 3): what a tokenizer needs. Tensors are not read here yet.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace draftproof {

using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, std::vector<std::uint64_t>,
                               std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

/// Throws Error naming the file (and key) when it is missing, truncated, of another version, or has impossible sizes.
std::map<std::string, GgufValue> read_gguf_metadata(const std::filesystem::path& file);

}  // namespace draftproof
