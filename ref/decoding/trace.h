// SPDX-License-Identifier: MIT
// The history of one run: what was asked, and for every round what was drafted, judged and kept. It is evidence, not a
// log: the oracle sees a run only through it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/proposal.h"
#include "ref/acceptance/rule.h"
#include "ref/acceptance/sampling.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"

namespace draftproof {

/// How a proposal is verified: all rows in one pass, or row by row until a draft token falls. Equal bits.
enum class Verification : std::uint8_t { batched, serial };
const char* name_of(Verification verification) noexcept;

enum class Finish : std::uint8_t { unfinished, stop, length, cancelled };
const char* name_of(Finish finish) noexcept;

struct Request {
  std::vector<Token> prompt;  // at least one token
  Sampling sampling;
  std::vector<Token> stops;   // the text ends with the first of these, which is part of the output
  int max_new_tokens = 0;
  int draft_max = 0;          // most draft tokens per round; the draft may make fewer
  int prefill_chunk = 0;        // most rows of the prompt read at once; 0: as many as suits the loop
  Verification verification = Verification::batched;
  int sequence = 0;           // part of every random key
  bool logprobs = false;      // record the log-probability of every token (plain decoding only)

  bool stops_at(Token token) const noexcept;
};

struct Round {
  int position = 0;               // absolute position of the first token decided: that of the anchor, plus one
  Token anchor = 0;               // last committed token, row 0 of the verification
  Proposal proposal;              // as judged, nothing below a stop token; `drawn_from` only when recorded
  Verdict verdict;                // the rule's
  std::vector<Token> emitted;     // the accepted draft tokens and the target's token, cut after the first stop token
  int accepted = 0;               // draft tokens among `emitted`
  int passes = 0;                 // of the target: 1 when batched, one for each row read when serial
  double logprob = 0;             // of the token of a plain round, before penalties and temperature; on request

  // Recorded on request only.
  std::vector<Fingerprint> logits;    // of every row asked for: the anchor's, and that of each draft token that stands
  std::vector<Fingerprint> targets;   // of the distributions of the same rows
  std::vector<Distribution> rows;     // these distributions themselves, only while the round is watched
  Fingerprint cache;                  // the target's cache after the round
  Fingerprint draft;                  // what the draft has observed after the round
  int cache_length = 0;               // positions in the target's cache after the round

  /// Nothing was drafted after the last draft token that stands, so the target's token takes the place of none.
  bool all_accepted() const { return proposal.first_child(verdict.last) == Proposal::no_node; }
};

/// Counts of one run. Every count can be recomputed from the trace; times are wall-clock seconds and say nothing about
/// results.
struct Statistics {
  int rounds = 0;        // target passes after the prompt
  int iterations = 0;    // rounds with at least one draft token
  int drafted = 0;       // draft tokens handed to the rule, those behind a refusal included
  int accepted = 0;      // draft tokens that became output
  int mismatches = 0;    // iterations in which the rule refused the last draft token it judged
  int all_accepted = 0;  // iterations in which it refused none of its path: iterations = mismatches + all_accepted
  int batched = 0;       // iterations verified in one pass
  int serial = 0;        // iterations verified row by row
  double prompt_seconds = 0;    // target and draft, before the first round
  double target_seconds = 0;    // forward passes of the target
  double draft_seconds = 0;     // propose and observe
  double validate_seconds = 0;  // distributions and judgement

  double decode_seconds() const { return target_seconds + draft_seconds + validate_seconds; }  // without the prompt
  double acceptance() const { return drafted == 0 ? 0 : static_cast<double>(accepted) / drafted; }
  double average_accepted() const { return iterations == 0 ? 0 : static_cast<double>(accepted) / iterations; }
};

struct Trace {
  Request request;       // as it was run: draft_max is the draft's own when none was asked for
  std::string kernels;   // table and threads that computed it; empty and 0 where there are none (hash models)
  int threads = 0;
  std::vector<Token> output;
  Finish finish = Finish::unfinished;
  std::vector<Round> rounds;
  Statistics statistics;
  /// Positions in the target's cache at the end: prompt + output - 1; fewer when cancelled inside the prompt.
  int final_length = 0;
  Fingerprint final_cache;  // the target's cache at the end; recorded on request only
  Fingerprint final_draft;  // what the draft has observed at the end; recorded on request only

  double tokens_per_round() const {
    return rounds.empty() ? 0 : static_cast<double>(output.size()) / static_cast<double>(rounds.size());
  }
};

/// The counts (not the times) as they follow from the rounds.
Statistics recounted(const Trace& trace);

}  // namespace draftproof
