// SPDX-License-Identifier: MIT
// All kinds of drafts, by their names on the command line. draft_spec.h has the syntax.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ref/drafts/draft.h"
#include "ref/drafts/draft_spec.h"
#include "ref/models/memory.h"
#include "ref/models/model.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// Of a draft that pays for each draft token with a pass of its own: returns the requested number of draft tokens, or
/// the default for 0, and at most `capacity`, because no round can use more than the text has positions.
int draft_tokens_per_round(int asked, int capacity);

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
  TakesPath takes_path;
  /// Of a kind that reads the target's features and borrows its embeddings: whether a checkpoint with this config is
  /// one. nullptr: it reads no features.
  bool (*recognizes)(const Json& config);
  bool trees;  // proposes trees, not only chains; so does a kind with the option `tree` when that is not 0
  Keeps keeps;
  std::span<const DraftOption> options;
  const char* summary;
  /// The memory that it needs beside its target. `files`: of the draft; of a kind without a checkpoint, of the target;
  /// nullptr when the target has none.
  MemoryNeed (*need)(const DraftStage& stage, const Checkpoint* files, const MemoryNeed& target,
                     const LoadOptions& load_options);
  /// Loads the weights. The target outlives the drafter.
  std::unique_ptr<Drafter> (*load)(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                                   const LoadOptions& load_options);
};

std::span<const DraftKind> all_draft_kinds() noexcept;

/// "none, dflash:PATH, ..."
std::string names_of_drafts();

/// Returns the name of the kind that a checkpoint is a draft of, by its config: "dflash", "eagle3", "mtp" of assistants
/// and of heads without a model, "model" of all others. Throws Error for an architecture that is not known.
std::string kind_of_draft(const Checkpoint& files);

/// The need of a model and of what reads its rows.
MemoryNeed decoding_need(const Checkpoint& files, const LoadOptions& load_options);

}  // namespace draftproof
