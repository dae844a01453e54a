// SPDX-License-Identifier: MIT
// A sequence whose end the replay has not reached: what it declares, its text so far, and what the lines of later
// rounds are compared with.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/spectrace/draft_watch.h"
#include "oracle/spectrace/events.h"
#include "oracle/spectrace/findings.h"
#include "oracle/spectrace/top_logprobs.h"

namespace draftproof::spectrace {

struct OpenSequence {
  OpenSequence(const SequenceEvent& of, const Findings& findings)
      : declared(of), text(of.prompt), draft(of, findings) {}

  SequenceEvent declared;
  std::vector<Token> text;  // prompt and emitted tokens; within a round, those before the row
  Statistics counts;
  bool all_have_draft_tokens = true;  // every round so far states its draft tokens
  std::int64_t dropped = 0;           // positions, by context shifts
  std::optional<TraceFinding> cut;    // the last round lacks accepted tokens, which only some ends explain
  bool stop_hidden = false;           // the last round ends with a stop token that is not part of the text
  DraftWatch draft;

  // What bets know before a token.
  std::optional<Token> rejected;  // the draft token rejected last
  bool rejected_unknown = false;  // some round does not state its draft tokens
  TopLogprobs top_logprobs;

  // Where its random numbers are evidence.
  std::int64_t fresh_from = 0;  // the first position whose random numbers no earlier sequence drew
  bool coins_begun = false;
  std::int64_t decided_end = 0;  // behind the last position that the rounds so far decided for the text

  AcceptanceRule rule() const noexcept { return declared.rule.kind; }
  bool greedy() const { return rule() == AcceptanceRule::greedy || declared.sampling.greedy(); }
  /// Returns whether tokens are drawn from the softmax of the raw logits.
  bool draws_from_softmax() const;
  /// Returns the stated top log-probabilities at a row as a distribution; nothing where there are none, or where they
  /// are not of the distribution that tokens are drawn from.
  std::optional<RoundedDistribution> distribution_of_top(const RoundEvent& round, std::size_t row,
                                                         const Header& header) const;

  std::int64_t emitted() const { return static_cast<std::int64_t>(text.size() - declared.prompt.size()); }
  std::int64_t left() const;  // tokens that may be emitted
  bool stops_at(Token token) const;
  bool stopped() const { return stop_hidden || (emitted() > 0 && stops_at(text.back())); }

  bool fresh(std::int64_t position) const { return position >= fresh_from; }
  /// Returns whether what was decided at this position, by a coin or by a draft token, is evidence. It is not where the
  /// text had ended before, because the same coin may decide again; where an earlier sequence was decided by the same
  /// coins; and at the first position where stop tokens are hidden, because a sequence of only such a token may be
  /// missing in the trace.
  bool is_evidence(std::int64_t position) const;
  /// Returns how many rows of the round that comes next (of block verification: draft tokens) have a part in the text
  /// or its end.
  std::int64_t rows_of_the_text(const RoundEvent& round) const;
};

}  // namespace draftproof::spectrace
