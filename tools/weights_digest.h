// SPDX-License-Identifier: MIT
// Digests that identify the weights of a model: a trace states the weights it was made with, the file of a prefix
// cache those it was filled with, and a server those that it serves.
#pragma once

#include <filesystem>
#include <string>

#include "ref/formats/checkpoint.h"

namespace draftproof {

/// Returns "sha256:" and the digest of a .gguf file or, for a folder, of config.json and all .safetensors files in it,
/// concatenated in ascending order of their names. Behind them follow, of every adapter, "lora SCALE" and a line end,
/// and its files. Reads all bytes: about six seconds per gigabyte.
std::string weights_digest(const Checkpoint& target);

/// Returns "xxh3:" and a fingerprint of the same bytes: not cryptographic, and as fast as the files can be read.
std::string weights_fingerprint(const Checkpoint& target);
/// The same of a file or a folder alone.
std::string weights_fingerprint(const std::filesystem::path& draft);

}  // namespace draftproof
