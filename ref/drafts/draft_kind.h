// SPDX-License-Identifier: MIT
// What there is to know about a kind of draft before one is opened: its options, its memory, how it is loaded. A kind
// defines its own, behind its draft; the list of all is in drafts.h.
#pragma once

#include <memory>
#include <span>

#include "ref/drafts/draft.h"
#include "ref/drafts/draft_spec.h"
#include "ref/models/memory.h"
#include "ref/models/model.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// A required path is that of a checkpoint. An optional one is that of a file which the kind reads itself, or that of a
/// checkpoint instead of the target's.
enum class TakesPath { none, optional, optional_checkpoint, required };

/// What a draft keeps of the text: its tokens, which are all it reads of it; a cache; or nothing.
enum class Keeps { tokens, cache, nothing };

/// What drafts are loaded for.
struct DraftTarget {
  DraftTarget(Model& loaded, const Checkpoint* read_from = nullptr) : model(loaded), files(read_from) {}
  Model& model;
  const Checkpoint* files;  // for its tokenizer; nullptr when it has no files
};

struct DraftKind {
  const char* name;
  const char* summary;
  TakesPath takes_path = TakesPath::none;
  /// Of a kind that reads the target's features and borrows its embeddings: whether a checkpoint with this config is
  /// one. nullptr: it reads no features.
  bool (*recognizes)(const Json& config) = nullptr;
  bool trees = false;  // proposes trees, not only chains; so does a kind with the option `tree` when that is not 0
  Keeps keeps;
  bool over_ranks = false;  // is cut as its target is, where others are whole on rank 0
  std::span<const DraftOption> options = {};
  /// The memory that it needs beside its target. `files`: of the draft; of a kind without a checkpoint, of the target;
  /// nullptr when the target has none.
  MemoryNeed (*need)(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                     const LoadOptions& load_options);
  /// Loads the weights. The target outlives the drafter, whose drafts are of texts of any length (short_context.h).
  std::unique_ptr<Drafter> (*load)(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                                   const LoadOptions& load_options);
};

}  // namespace draftproof
