// SPDX-License-Identifier: MIT
// Every kind of draft, by the name it has on the command line: "none", "dflash:PATH", "model:PATH", "hostile",
// "oracular", "branching".
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "ref/drafts/draft.h"
#include "ref/models/weight_loader.h"
#include "ref/models/model.h"

namespace draftproof {

/// Weights, loaded once; makes the draft of one sequence of at most `capacity` positions that draft tokens at most
/// `draft_max` tokens a round (0: as many as suits the kind).
using DraftSource = std::function<std::unique_ptr<Draft>(int capacity, int draft_max)>;

struct DraftKind {
  const char* name;
  bool takes_path;
  bool needs_target;  // reads the target's features and borrows its embeddings
  bool trees;         // draft tokens more than chains
  const char* summary;
  DraftSource (*open)(const std::filesystem::path& path, Model& target, const LoadOptions& load_options);
};

/// All of them; ends with a row of nulls.
const DraftKind* all_draft_kinds() noexcept;

struct DraftName {
  const DraftKind* kind;
  std::filesystem::path path;
};
/// Throws Error, naming what there is, for a name that is none of ours or lacks its path.
DraftName parse_draft_name(const std::string& name);

/// Throws Error when the draft of this name draft tokens trees, for `what` that holds chains only.
void require_chains(const std::string& name, const std::string& what);

}  // namespace draftproof
