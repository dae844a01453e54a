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
  /// `files`: of the draft; nullptr for a kind that takes no path. The target outlives the source.
  DraftSource (*open)(const Checkpoint* files, Model& target, const LoadOptions& load_options);
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
