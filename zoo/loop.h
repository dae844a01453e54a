// SPDX-License-Identifier: MIT
// A small decode loop that can be wrong in one place at a time, for faults inside the production loop that no replaced
// part could cause. Without a fault it does what the production loop does.
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
  // draft tokens, and the q stated for them
  stale_anchor,              // after a round without draft tokens the anchor is that of the last round with some
  best_stated_as_drawn,      // the draft token is q's most likely token; q is stated
  flat_q_stated,             // q is stated as it would be without temperature: flat
  short_q_stated,            // q is stated with 8 bits of precision
  last_q_stated,             // one buffer for all q: each is stated as the last
  q_of_row_before_stated,    // rows of q are gathered twice: each is that of the draft token before
  q_of_round_before_stated,  // the buffer of q is read before it is written
  q_cut_after_drawing,       // q is stated as its two most likely tokens
  q_of_other_ids,            // q is stated for the ids of another vocabulary, one less than those of the draft tokens
  placeholders_with_q,       // the draft tokens of the first round are token 0; q is stated
  cut_after_drawing,         // draft tokens to which their own q gives a low probability are dropped
  // from the target's rows to distributions
  min_p_on_bonus_only,
  default_sampling_on_draft_rows,
  default_sampling_on_bonus,
  penalties_off_with_draft,
  penalties_blind_to_draft,
  penalty_window_too_long,  // by one, on rows after a draft token
  penalties_off_without_draft,
  penalties_see_last_of_round,  // only the last token of each round is counted
  anchor_counted_twice,         // by penalties, on rows after a draft token
  accepted_counted_twice,       // by penalties: when they are drafted and when they are committed
  rejected_counted,             // penalties count what a verification has read
  placeholders_counted,         // penalties count a slot without a draft token as the last token of the vocabulary
  stops_masked_on_draft_rows,
  greedy_with_draft,         // whatever the temperature
  softmax_with_draft,        // although greedy decoding was requested
  ranks_for_tokens,          // top-k sorts the row, and ranks are used as token ids
  row_padded,                // to a multiple of four, with zeros
  larger_wins_ties,          // of equal logits in rounds with draft tokens, as it does in no other
  top_k_keeps_ties,          // on rows that verify a draft token: all logits that equal the last one kept
  top_p_in_eight_bits,       // the sum that top-p compares has 8 bits of precision
  min_p_before_temperature,  // on rows that verify a draft token
  biases_off_on_draft_rows,
  biases_twice_on_draft_rows,
  constraint_off_on_draft_rows,
  constraint_off_on_bonus,      // of a round with draft tokens
  constraint_of_the_anchor,     // its row masks all rows of a round
  constraint_keeps_rejected,    // rejected draft tokens stay in what the constraint has read
  constraint_ends_rounds_only,  // whether an output is complete is asked of the last token of a round
  constraint_a_row_late,        // a row after a draft token is masked as the row before it
  mask_behind_the_end,          // the row behind a stop token is masked, and the request fails as nothing may follow
  constraint_ended_by_draft,    // a drafted stop token ends the grammar for good, accepted or not
  forced_behind_the_end,        // the token that the grammar forces is appended to a text that a stop token has ended
  // the end of the text
  stop_only_at_round_end,
  stop_in_last_two_tokens,  // only the last two tokens of a round are searched for a stop token
  tokens_kept_after_stop,   // the tokens after a stop token in its round are kept
  unused_slots_accepted,    // when all draft tokens are accepted, slots without a draft token are as well
  budget_before_stop,
  budget_ignored,
  proposal_charged_whole,
  // KV caches and the state of the draft
  stale_commit,                   // as many rows are committed as in the round before
  all_rows_committed,             // rejected rows are committed too
  rows_behind_the_end_committed,  // accepted draft tokens behind a stop token are cut from the text only
  row_read_again_without_draft,   // a round without draft tokens uses the last row of the round before
  draft_hole,                     // the draft does not receive the last draft token when all of them were accepted
  draft_one_ahead,                // the draft receives every token one position early
  chunks_overlap,                 // a later prefill chunk begins with the last token of the chunk before
  rejected_committed_on_cancel,   // a cancelled run commits the rejected rows of its last round
  // context shifts
  shifted_for_a_round,        // when a whole round does not fit any more, not when a row does not
  keys_of_cache_positions,    // the keys of random draws count the positions of the cache
  keys_rewound_by_rejection,  // the round after a rejection draws with the keys of the round before
  penalties_see_the_cache,    // penalties do not count the tokens that were dropped
  // counters
  bonus_counted_as_accepted,
  cut_counted_as_accepted,  // draft tokens behind a stop token are verified, and counted when accepted
  drafted_counted_as_accepted,
  drafted_counted_as_limit,
  plain_rounds_counted,  // as iterations
  stop_finishes_by_length,
  logprob_of_row_before,
  logprob_after_temperature,
  top_logprobs_of_row_before,
  prompt_logprob_of_row_before,  // the row of a token of the prompt is taken for that of the next
  top_logprobs_larger_first,     // of equal logits the larger token comes first
  // no faults
  read_behind_the_end,        // draft tokens behind a stop token are verified, then dropped
  counts_taken_back,          // penalties count draft tokens in the record of the text, and those rejected are removed
  stale_mask_behind_the_end,  // the row behind a stop token is masked as the row before it
};

/// Target, draft and random source must outlive the call. The draft must have room for `slack` positions more than the
/// text.
Trace run_loop(Model& target, Draft& draft, const Rule& rule, RandomSource& random, const Request& request,
               const Execution& execution, const OnRound& on_round, Fault fault);
inline constexpr int slack = 64;

}  // namespace draftproof::zoo
