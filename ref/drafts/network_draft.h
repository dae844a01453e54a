// SPDX-License-Identifier: MIT
// What kinds of drafts share that compute a row of logits for each draft token: options, and what these mean for
// loading and for memory.
#pragma once

#include "ref/drafts/draft_kind.h"
#include "ref/drafts/most_probable.h"

namespace draftproof {

/// Of a draft that pays for each draft token with a pass of its own: returns the requested number of draft tokens, or
/// the default for 0, and at most `capacity`, because no round can use more than the text has positions.
int draft_tokens_per_round(int asked, int capacity);

inline constexpr DraftOption min_prob_option = {"min_prob", 0, 0, 1, "stops where no token is so probable; 0: nowhere",
                                                false};
inline constexpr DraftOption q4_option = {
    "q4", 0, 0, 1, "1: its weights in 4 bits, and a copy of the target's LM head where it has none"};
inline constexpr DraftOption q4_option_of_a_model = {"q4", 0, 0, 1, "1: its weights in 4 bits"};
inline constexpr DraftOption head_option = {"head", 0, 0, 1 << 24,
                                            "proposes the first so many tokens only, by a smaller LM head; 0: all"};

/// As `min_prob` has it. Throws Error when the stage proposes trees.
MinProbability min_probability_of(const DraftStage& stage);

LoadOptions in_four_bits(LoadOptions options);

/// As `q4` and `head` have it. The LM head is most of what a small draft reads.
LoadOptions draft_options(const DraftStage& stage, const LoadOptions& load_options);

/// The need of a checkpoint as a draft.
MemoryNeed need_of_draft(const Checkpoint& files, const LoadOptions& load_options);

}  // namespace draftproof
