// SPDX-License-Identifier: MIT
// Counts the events that runs met. A distribution that is right proves nothing about events that never happened, so
// each of these must happen before a distribution may be called right.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "oracle/plain/subject.h"
#include "ref/acceptance/distribution.h"

namespace draftproof {

enum class CoverageEvent : std::uint8_t {
  first_accepted,
  second_accepted,
  third_accepted,
  fourth_accepted,  // draft tokens, by depth
  first_rejected,
  second_rejected,
  third_rejected,
  fourth_rejected,
  rejected_twice,             // in two consecutive rounds
  all_accepted,               // and the target emitted a token after them
  nothing_drafted,            // where the budget leaves room for draft tokens
  nothing_drafted_after_all,  // ... after a round that accepted all of its draft tokens
  other_length,               // another number of draft tokens than the round before, not for want of room
  cut_by_budget,              // fewer draft tokens than a round before, because the budget leaves no room
  budget_filled,              // by draft tokens, all accepted, and the target's token after them
  p_is_zero,                  // of the draft token
  q_is_point,
  q_is_p,
  q_is_other,
  stop_accepted,  // the draft token is a stop token
  stop_rejected,
  stop_after_rejection,  // the target's token in place of the draft token is a stop token
  stop_after_all,
  penalized_by_draft,  // a row has another distribution because of the draft tokens before it
  stopped,
  cut,  // how the text ended
  // under `rejection` only
  accepted_by_coin,
  rejected_by_coin,  // 0 < p < q
  one_residual_token,
  several_residual_tokens,  // tokens with p > q, after a rejection
  // with trees only
  sibling_accepted,        // instead of the first draft token at its position
  sibling_accepted_below,  // ... below another accepted sibling
  accepted_below_sibling,  // a first draft token, below an accepted sibling
  no_sibling_accepted,
  // with constraints only
  optional_end_accepted,  // a drafted stop token where the constraint lets the text end or go on
  optional_end_rejected,
  count
};
const char* name_of(CoverageEvent event) noexcept;

/// Which events are possible beyond those of every rule, of chains, and of texts without a constraint.
struct Possible {
  bool rejection = false;
  bool trees = false;
  bool constraints = false;  // that let stop tokens end a text that might go on
};

/// How often each event was met.
class Coverage {
 public:
  void add(CoverageEvent event, long times = 1) { counts_[static_cast<std::size_t>(event)] += times; }
  void add(const Coverage& other);
  long operator[](CoverageEvent event) const { return counts_[static_cast<std::size_t>(event)]; }

  /// Returns the possible events that were never met.
  std::vector<CoverageEvent> missing(Possible possible) const;
  /// Returns the possible event that was met least often.
  CoverageEvent rarest(Possible possible) const;

 private:
  std::array<long, static_cast<std::size_t>(CoverageEvent::count)> counts_{};
};

/// Counts the events in runs of one request in one variation.
class CoverageCounter {
 public:
  /// `target` must outlive this object.
  CoverageCounter(Model& target, const Request& request, const Variation& variation);

  void add(const Trace& trace);
  const Coverage& met() const noexcept { return met_; }

 private:
  struct Row {
    Distribution p;
    bool penalized_by_draft;
    bool optional_end;  // the constraint allows a stop token and another token
  };
  /// What the next round is compared with.
  struct Before {
    int length = 0;   // draft tokens of the last round
    int longest = 0;  // ... of any round
    bool rejected = false;
    bool all_accepted = false;
  };
  /// Returns the row after `text`, whose last `drafted` tokens are draft tokens.
  const Row& row_after(std::span<const Token> text, std::size_t drafted);
  /// Returns whether `round`, which begins after `text`, is consistent. The rounds of a wrong decoder may not be; the
  /// comparison of distributions reports them.
  bool is_consistent(const Round& round, std::span<const Token> text) const;
  /// Counts along the path of accepted draft tokens.
  void add_path(const Round& round, std::span<const Token> text);
  /// Counts a draft token that is verified with its q, at the position after `text`.
  void add_draft_token(const Round& round, std::span<const Token> text, int draft_token, bool accepted);
  /// Counts the events of a whole round. `room`: draft tokens that the budget has room for.
  void add_round(const Round& round, int room, Before& before);

  Model& target_;
  const Request request_;
  const bool rejection_;
  std::map<std::pair<std::size_t, std::vector<Token>>, Row> rows_;
  Coverage met_;
};

}  // namespace draftproof
