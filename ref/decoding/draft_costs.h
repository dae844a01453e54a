// SPDX-License-Identifier: MIT
// Measures on this machine what the server has to know to choose lengths of proposals where many texts share passes
// (draft_lengths.h): the seconds of passes of the target and of proposals.
#pragma once

#include <memory>
#include <span>

#include "ref/acceptance/sampling_params.h"
#include "ref/drafts/costs.h"
#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof {

/// Measures proposals of up to `draft_max` draft tokens of every stage, drawn as `sampling` says, and the passes that
/// verify them, after a short text: the least time of several. Takes about half a second; longer where a pass takes
/// long. Texts have at most `positions` >= draft_max + 2. Call it inside with_workers.
DraftCosts measure_draft_costs(Model& target, std::span<const std::shared_ptr<Drafter>> stages, int draft_max,
                               int positions, const Sampling& sampling);

}  // namespace draftproof
