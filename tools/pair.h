// SPDX-License-Identifier: MIT
// A target and its draft under one name: a JSON file in place of TARGET.
//
//   {"target": "Qwen3-8B", "draft": "dflash:Qwen3-8B-DFlash?type=q4", "quantize": "q8", "kv": "q8"}
//   {"target": "Qwen3-8B", "lora": ["translator", "polite=0.5"]}
//
// `target` is required; the others are options of the command line, and stand for these where they are left out. The
// draft names its kind. A path is relative to the folder of the file and may lead anywhere, as one of the command line:
// nothing that it names is run or written, and what is no model is refused. A name of the hub cache is taken where the
// folder has nothing of that name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/options.h"

namespace draftproof {

struct Pair {
  std::string target;
  std::optional<std::string> draft;
  std::optional<std::string> quantize;
  std::optional<std::string> kv;
  std::vector<std::string> lora = {};  // each PATH or PATH=SCALE
};

/// Reads a file whose name ends in .json; nullopt for every other TARGET. Throws Error, naming file and field, when it
/// is no pair.
std::optional<Pair> read_pair(const std::filesystem::path& target);

/// Where TARGET is a pair, puts what it says in the place of TARGET, --draft, --quantize, --kv and --lora, but for the
/// options that were given. `draft`: of the command, or of a command that takes several an empty text.
void use_pair(const Command& command, std::string& target, std::string& draft, LayoutOptions& layout);

}  // namespace draftproof
