// SPDX-License-Identifier: MIT
// All kinds of drafts, by their names on the command line. draft_spec.h has the syntax. A new one is a declaration here
// and a row in drafts.cpp; its file defines it.
#pragma once

#include <span>
#include <string>

#include "ref/drafts/draft_kind.h"

namespace draftproof {

extern const DraftKind none_kind;
extern const DraftKind dflash_kind;
extern const DraftKind eagle3_kind;
extern const DraftKind mtp_kind;
extern const DraftKind medusa_kind;
extern const DraftKind model_kind;
extern const DraftKind pard_kind;
extern const DraftKind self_kind;
extern const DraftKind ngram_simple_kind;
extern const DraftKind ngram_map_k_kind;
extern const DraftKind ngram_map_k4v_kind;
extern const DraftKind ngram_mod_kind;
extern const DraftKind ngram_cache_kind;
extern const DraftKind suffix_kind;
extern const DraftKind always_reject_kind;
extern const DraftKind perfect_kind;
extern const DraftKind tree_test_kind;

/// Returns the kinds above, in that order.
std::span<const DraftKind* const> all_draft_kinds() noexcept;

/// "none, dflash:PATH, ..."
std::string names_of_drafts();

/// Returns the name of the kind that a checkpoint is a draft of, by its config: "dflash", "eagle3", "medusa",
/// "mtp" of assistants and of heads without a model, "pard" of models that name a pard_token, "model" of all others.
/// Throws Error for an architecture that is not known.
std::string kind_of_draft(const Checkpoint& files);

}  // namespace draftproof
