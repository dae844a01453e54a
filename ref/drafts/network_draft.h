// SPDX-License-Identifier: MIT
// What kinds of drafts share that compute a row of logits for each draft token: options, and what these mean for
// loading and for memory.
#pragma once

#include <limits>
#include <string>

#include "ref/drafts/draft_kind.h"
#include "ref/drafts/most_probable.h"

namespace draftproof {

/// Of a draft that pays for each draft token with a pass of its own: returns the requested number of draft tokens, or
/// the default for 0, and at most `capacity`, because no round can use more than the text has positions.
int draft_tokens_per_round(int asked, int capacity);

inline constexpr DraftOption min_prob_option = {"min_prob", 0, 0, 1, "stops where no token is so probable; 0: nowhere",
                                                false};

/// The words of --quantize and --kv.
inline constexpr const char* weight_words[] = {"none", "f32", "q8", "q4"};
inline constexpr const char* kv_words[] = {"f32", "bf16", "q8"};
inline constexpr DraftOption type_option =
    word_option("type", weight_words, "what its weights become when they are loaded; the target's --quantize");
inline constexpr DraftOption kv_option = word_option("kv", kv_words, "format of its KV cache; the target's --kv");
inline constexpr DraftOption context_option = {
    "context", 0, 0, 1 << 30, "drafts up to so many positions of a text; 0: as many as it was made for"};
inline constexpr DraftOption head_option = {"head", 0, 0, 1 << 24,
                                            "proposes the first so many tokens only, by a smaller LM head; 0: all"};

/// As `min_prob` has it. Throws Error when the stage proposes trees.
MinProbability min_probability_of(const DraftStage& stage);

/// As `context` has it: `made_for`, or fewer.
int context_of(const DraftStage& stage, int made_for = std::numeric_limits<int>::max());

/// The weights in this type, those that are stored quantized too where that takes fewer bytes.
LoadOptions of_type(const std::string& type, LoadOptions options);

/// As `type` and, of a kind that has it, `kv` have it.
LoadOptions own_options(const DraftStage& stage, const LoadOptions& load_options);

/// The same, and as `head` has it. The LM head is most of what a small draft reads: with a type of 4 bits it has 4,
/// also the copy of the target's.
LoadOptions draft_options(const DraftStage& stage, const LoadOptions& load_options);

/// The need of a checkpoint as a draft.
MemoryNeed need_of_draft(const Checkpoint& files, const LoadOptions& load_options);

}  // namespace draftproof
