// SPDX-License-Identifier: MIT
// All kinds of drafts, by their names on the command line: "none", "dflash:PATH", "model:PATH", "always-reject",
// "perfect", "tree-test".
#pragma once

#include <filesystem>
#include <memory>

#include "ref/drafts/draft.h"
#include "ref/models/model.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// Throws Error when a draft of `context` positions cannot serve a text of `capacity` positions.
void require_context(int context, int capacity);

struct DraftKind {
  const char* name;
  bool takes_path;
  bool needs_target;  // reads the target's features and borrows its embeddings
  bool trees;         // proposes trees, not only chains
  const char* summary;
  /// Loads the weights. `files`: of the draft; nullptr for a kind that takes no path. The target outlives the drafter.
  std::unique_ptr<Drafter> (*load)(const Checkpoint* files, Model& target, const LoadOptions& load_options);
};

std::span<const DraftKind> all_draft_kinds() noexcept;

struct DraftName {
  const DraftKind* kind;
  std::filesystem::path path;
};
/// Throws Error, listing all kinds, when the kind is unknown or its path is missing.
DraftName parse_draft_name(const std::string& name);

/// Throws Error when the named draft proposes trees; `what` holds chains only.
void require_chains(const std::string& name, const std::string& what);

}  // namespace draftproof
