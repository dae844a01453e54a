// SPDX-License-Identifier: MIT
// Gets what a model needs from Hugging Face into the cache that its programs share (ref/formats/hub_cache.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ref/formats/hub_cache.h"
#include "tools/fetch/transfer.h"

namespace draftproof {

/// A file of a repository, as the server lists it.
struct HubFile {
  std::string name;
  std::uint64_t size = 0;
  std::string digest;  // 64 digits of SHA-256, or 40 of a Git blob
};

/// Returns which files a model needs: config, tokenizer, chat template and safetensors, or one .gguf, all its parts.
/// Throws Error when there is no model, and, listing them, when it has to be said which .gguf is wanted.
std::vector<HubFile> files_of_model(const std::vector<HubFile>& all, const HubName& name);

struct Fetched {
  std::filesystem::path path;  // the snapshot, or the .gguf in it
  int files = 0;               // that were not there
  std::uint64_t bytes = 0;     // that were transferred
};

/// `progress`: is told what is done and of how many bytes. What was transferred survives an error, the end of the
/// process or of the power; the next call goes on. Files get their names when they are whole and have the digest that
/// the server states, and "main" names the snapshot when all its files are there. Throws Error, one sentence.
Fetched fetch_model(
    const HubName& name, const std::filesystem::path& cache, const HubAccess& access,
    const std::function<void(const std::string& file, std::uint64_t done, std::uint64_t all)>& progress);

}  // namespace draftproof
