// SPDX-License-Identifier: MIT
// The record of one run: the request, and for every round its proposal, verdict and what was kept. It is evidence, not
// a log: the oracle sees a run only through its trace.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/proposal.h"
#include "ref/acceptance/rule.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"
#include "ref/decoding/request.h"
#include "ref/drafts/costs.h"
#include "ref/drafts/draft.h"

namespace draftproof {

enum class Finish : std::uint8_t { unfinished, stop, length, cancelled };
const char* name_of(Finish finish) noexcept;

/// A token and its log-probability in a row of the target, before penalties and temperature.
struct TokenLogprob {
  Token token = 0;
  double logprob = 0;

  bool operator==(const TokenLogprob&) const = default;
};

/// What the row before a token of the prompt says of it. On request only.
struct PromptLogprob {
  double logprob = 0;                  // of the token, before penalties and temperature
  int rank = 1;                        // 1 plus the number of tokens with a larger logit
  std::vector<TokenLogprob> top = {};  // as many as Request::top_logprobs, in the order of Round::top_logprobs

  bool operator==(const PromptLogprob&) const = default;
};

struct Round {
  int position = 0;              // absolute position of the first draft token: that of the anchor, plus one
  Token anchor = 0;              // last committed token, row 0 of the verification pass
  Proposal proposal;             // as verified, without descendants of stop tokens; `drawn_from` only when recorded
  Verdict verdict;               // of the acceptance rule
  std::vector<Token> emitted;    // the accepted draft tokens and the target's token, cut after the first stop token
  int accepted = 0;              // draft tokens among `emitted`
  std::vector<double> logprobs;  // of the emitted tokens, before penalties and temperature; on request only
  /// For each emitted token, the most likely tokens at its place: by descending logit, of equal ones the smaller token
  /// first. On request only; at most as many as the vocabulary has.
  std::vector<std::vector<TokenLogprob>> top_logprobs;
  /// What a tuner learned the costs of the round from. Only where one chose its draft tokens, and all of them, and no
  /// others, were verified.
  std::optional<RoundSeconds> seconds;

  // Recorded on request only.
  std::vector<Fingerprint> logits;   // of every row read: that of the anchor and of each accepted draft token
  std::vector<Fingerprint> targets;  // of the distributions of the same rows
  std::vector<Distribution> rows;    // these distributions themselves, only during the RoundCallback
  Fingerprint cache;                 // the target's cache after the round
  Fingerprint draft;                 // what the draft has observed after the round
  int cache_length = 0;              // positions in the target's cache after the round
  int positions_before = 0;          // positions in the target's cache before the verification pass
  std::vector<DraftPositions> draft_positions;  // of the draft then, when it has proposed

  /// Whether the last accepted draft token has no children, so the target's token replaces no draft token.
  bool all_accepted() const { return proposal.first_child(verdict.last) == Proposal::no_node; }
};

/// Counts and times of one run. Every count can be recomputed from the trace. Times are wall-clock seconds.
struct Statistics {
  int rounds = 0;               // rounds after the prefill
  int iterations = 0;           // rounds with at least one draft token
  int drafted = 0;              // draft tokens given to the rule, including those after a rejection
  int accepted = 0;             // draft tokens that became output
  int mismatches = 0;           // iterations in which the rule rejected the last draft token that it verified
  int all_accepted = 0;         // iterations without a rejection on the path: iterations = mismatches + all_accepted
  int batched = 0;              // iterations verified in one pass
  int serial = 0;               // iterations verified row by row
  int redecoded = 0;            // rows read again after a rejection
  double prompt_seconds = 0;    // target and draft, before the first round
  double target_seconds = 0;    // forward passes of the target
  double draft_seconds = 0;     // propose and observe
  double validate_seconds = 0;  // distributions and acceptance rule

  double decode_seconds() const { return target_seconds + draft_seconds + validate_seconds; }  // without the prompt
  double acceptance() const { return drafted == 0 ? 0 : static_cast<double>(accepted) / drafted; }
  double average_accepted() const { return iterations == 0 ? 0 : static_cast<double>(accepted) / iterations; }
};

struct Trace {
  Request request;
  Execution execution;  // draft_max is the draft's default when none was requested
  std::string kernels;  // kernel table and number of threads; empty and 0 for models without kernels (hash models)
  int threads = 0;
  DraftCosts costs;  // that a tuner expected when it began to choose lengths of proposals; empty without one
  int draft_reach = std::numeric_limits<int>::max();  // as far as the draft serves the text
  int reused = 0;                                     // positions of the text that came from a prefix cache
  std::vector<PromptLogprob> prompt_logprobs;         // of the prompt's tokens behind the first; on request only
  std::vector<Token> output;
  Finish finish = Finish::unfinished;
  std::vector<Round> rounds;
  Statistics statistics;
  std::vector<std::string> own_stages;  // of this text alone: "prediction", "pool"; asked before those of the draft
  std::vector<DraftTimes> draft_times;  // [stage]; empty without a draft
  /// Positions in the target's cache at the end: prompt + output - 1; fewer when cancelled during prefill.
  int final_length = 0;
  std::vector<DraftPositions> final_positions;  // of the draft at the end
  Fingerprint final_cache;                      // the target's cache at the end; recorded on request only
  Fingerprint final_draft;                      // what the draft has observed at the end; recorded on request only

  double tokens_per_round() const {
    return rounds.empty() ? 0 : static_cast<double>(output.size()) / static_cast<double>(rounds.size());
  }
};

/// Whether the first draft token of a round would lie behind the last position that the draft serves.
bool is_beyond_draft(const Trace& trace, const Round& round);
/// Returns how many rounds are.
int rounds_beyond_draft(const Trace& trace);

/// The names of stages in Trace::own_stages.
inline constexpr const char* prediction_stage = "prediction";
inline constexpr const char* pool_stage = "pool";

/// Returns how many draft tokens of a round are from the request's prediction.
int from_prediction(const Trace& trace, const Round& round);

/// Recomputes the counts (not the times) from the rounds.
Statistics recounted(const Trace& trace);

/// What one of several drafts that are asked in order has proposed, and the time that it took.
struct StageStatistics {
  int drafts = 0;                      // rounds with at least one of its draft tokens
  int drafted = 0;                     // its draft tokens
  int accepted = 0;                    // of these, the ones that became output
  std::vector<int> drafted_by_depth;   // [depth]: rounds with a draft token at this depth
  std::vector<int> accepted_by_depth;  // [depth]: of these, rounds in which one became output
  int positions = 0;                   // of the text that it has read at the end, or will once it is asked
  int passed = 0;                      // of these, positions that a window has passed
  DraftTimes times;

  /// Output tokens of a round with its draft tokens: vLLM's mean acceptance length. 1 without any.
  double tokens_per_draft() const { return drafts == 0 ? 1 : 1 + static_cast<double>(accepted) / drafts; }
};

/// Of every stage; of a trace that was read from a file, up to the last that proposed anything. The sums of the counts
/// are those of Statistics.
std::vector<StageStatistics> statistics_by_stage(const Trace& trace);

}  // namespace draftproof
