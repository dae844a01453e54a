// SPDX-License-Identifier: MIT
// prediction: a text that the request expects, as a draft (OpenAI's predicted outputs). The last tokens of the text are
// looked up in it, behind the end of the prompt, by the rule of suffix.h: where the output follows the prediction, the
// next tokens of it are drafted; where it leaves it, little is drafted until it is found again.
//
// It is of one request, so it is no kind that a draft can be named by: Engine::open puts it before the stages of the
// draft that is named. A prediction is known before any random number of the text, so the theorem of draft.h holds.
//
// Time and memory: those of a corpus of suffix.h, from the first proposal until the text is forgotten.
#pragma once

#include <memory>
#include <span>

#include "ref/drafts/draft.h"
#include "ref/models/memory.h"

namespace draftproof {

/// The memory that it takes beside a target and the other stages.
MemoryNeed need_of_prediction(std::size_t tokens);

/// Draft tokens of a round, where no other number is asked for.
constexpr int prediction_draft_max = 16;

/// `draft_max`: draft tokens of a round, at most. Throws Error for a prediction that is longer than the target's
/// context, or has a token that is none of the target's.
std::unique_ptr<Draft> prediction_draft(std::span<const Token> prediction, std::span<const Token> prompt,
                                        const Model& target, int draft_max);

}  // namespace draftproof
