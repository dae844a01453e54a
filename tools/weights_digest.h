// SPDX-License-Identifier: MIT
// Digests that identify the weights of a model: a trace states the weights it was made with, the file of a prefix
// cache those it was filled with, and a server those that it serves.
#pragma once

#include <filesystem>
#include <string>

namespace draftproof {

/// Returns "sha256:" and the digest of a .gguf file or, for a folder, of config.json and all .safetensors files in it,
/// concatenated in ascending order of their names. Reads all bytes: about six seconds per gigabyte.
std::string weights_digest(const std::filesystem::path& target);

/// Returns "xxh3:" and a fingerprint of the same bytes: not cryptographic, and as fast as the files can be read.
std::string weights_fingerprint(const std::filesystem::path& target);

}  // namespace draftproof
