// SPDX-License-Identifier: MIT
// A small decode loop that can be wrong in one place at a time, for the lines inside the production loop that no part
// put in from outside can reach. Without a fault it does what the production loop does.
#pragma once

#include "oracle/plain/subject.h"
#include "ref/acceptance/random_source.h"
#include "ref/acceptance/rule.h"
#include "ref/decoding/trace.h"
#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof::zoo {

enum class Fault {
  none,
  // what is drafted and what is said of it
  stale_anchor,                // after a round without draft tokens the anchor is still that of the last round with some
  best_stated_as_drawn,        // the draft token is q's best token; q is stated
  flat_q_stated,               // q is stated as it would be without temperature: flat
  short_q_stated,              // q is stated with 8 bits of precision
  last_q_stated,               // one buffer for all q: each is stated as the last
  q_of_row_before_stated,      // rows of q are gathered twice: each is that of the draft token before
  q_of_round_before_stated,    // the buffer of q is read before it is written
  cut_after_drawing,           // draft tokens that their own q thought unlikely are dropped
  // how the target's rows become distributions
  min_p_on_bonus_only,
  default_sampling_on_draft_rows,
  default_sampling_on_bonus,
  penalties_off_with_draft,
  penalties_blind_to_draft,
  penalty_window_too_long,     // by one, on rows after a draft token
  penalties_off_without_draft,
  penalties_see_last_of_round,  // of a round only the last token is counted
  stops_masked_on_draft_rows,
  greedy_with_draft,         // whatever the temperature
  softmax_with_draft,        // though greedy was asked for
  ranks_for_tokens,            // top-k orders the row, and places in the order are taken for tokens
  row_padded,                  // to a multiple of four, with zeros
  // where the text ends
  stop_only_at_block_end,
  stop_noticed_only,           // what follows a stop in its block is kept
  unused_slots_accepted,       // when all draft tokens stand, slots that no draft token was made for stand as well
  budget_before_stop,
  budget_ignored_by_block,
  block_charged_whole,
  // what is kept and told
  stale_commit,                // as many rows are kept as the round before kept
  block_committed,             // refused rows are kept too
  draft_hole,                  // the draft is not told the last draft token when all of them stood
  draft_told_ahead,            // the draft is told every token one place early
  pieces_overlap,              // a later piece of the prompt begins with the last token of the piece before
  block_committed_on_cancel,   // refused rows of the last round are kept by a run that is cancelled
  // what is counted
  bonus_counted_as_accepted,
  drafted_counted_as_accepted,
  drafted_counted_as_limit,
  plain_rounds_counted,        // as iterations
  stop_finishes_by_length,
  logprob_of_row_before,
  logprob_after_temperature,
};

/// Target, draft and chance outlive the call; the draft has room for `slack` positions more than the text.
Trace run_loop(Model& target, Draft& draft, const Rule& rule, RandomSource& random, const Request& request,
               const OnRound& on_round, Fault fault);
inline constexpr int slack = 64;

}  // namespace draftproof::zoo
