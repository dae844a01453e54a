// SPDX-License-Identifier: MIT
// All kinds of drafts, by their names on the command line: "none", "dflash:PATH", "model:PATH", "always-reject",
// "perfect", "tree-test".
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "ref/drafts/draft.h"
#include "ref/models/model.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// Holds loaded weights. Creates the draft of one sequence of at most `capacity` positions, which proposes at most
/// `draft_max` draft tokens per round (0: the default of the kind).
using DraftSource = std::function<std::unique_ptr<Draft>(int capacity, int draft_max)>;

struct DraftKind {
  const char* name;
  bool takes_path;
  bool needs_target;  // reads the target's features and borrows its embeddings
  bool trees;         // proposes trees, not only chains
  const char* summary;
  DraftSource (*open)(const std::filesystem::path& path, Model& target, const LoadOptions& load_options);
};

/// Returns all kinds as an array that ends with a row of nulls.
const DraftKind* all_draft_kinds() noexcept;

struct DraftName {
  const DraftKind* kind;
  std::filesystem::path path;
};
/// Splits a name into its kind and path. Throws Error for an unknown kind, with the list of kinds, or a missing path.
DraftName parse_draft_name(const std::string& name);

/// Throws Error when the draft of this name proposes trees. `what` names the caller's format that stores chains only.
void require_chains(const std::string& name, const std::string& what);

}  // namespace draftproof
