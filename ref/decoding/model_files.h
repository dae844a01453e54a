// SPDX-License-Identifier: MIT
// The files of a target and of its drafts, each opened once. Whoever needs them (tokenizer, stop tokens, memory need,
// engine, draft kinds) is given these.
#pragma once

#include <filesystem>
#include <map>
#include <utility>

#include "ref/formats/checkpoint.h"

namespace draftproof {

class ModelFiles {
 public:
  /// `target`: a Hugging Face style folder or a .gguf file. Reads headers only. Throws Error when it cannot be opened.
  explicit ModelFiles(const std::filesystem::path& target) : target_(target) {}
  explicit ModelFiles(Checkpoint target) : target_(std::move(target)) {}

  const Checkpoint& target() const noexcept { return target_; }

  /// The checkpoint of a draft, opened when it is first asked for. Valid as long as these files.
  const Checkpoint& draft(const std::filesystem::path& path) { return drafts_.try_emplace(path, path).first->second; }

 private:
  Checkpoint target_;
  std::map<std::filesystem::path, Checkpoint> drafts_;
};

}  // namespace draftproof
