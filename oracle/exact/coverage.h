// SPDX-License-Identifier: MIT
// What a run met on its way. A law that is right proves nothing about what never happened, so each of these has to
// happen before a law may be called right.
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

enum class Event : std::uint8_t {
  first_accepted, second_accepted, third_accepted, fourth_accepted,  // of the draft tokens of a round
  first_rejected, second_rejected, third_rejected, fourth_rejected,
  rejected_twice,              // in two rounds, one after the other
  all_accepted,               // and the target said a token after them
  no_node,                // where the budget leaves room for some
  nothing_drafted_after_all,      // ... after a round of which every draft token stood
  other_length,            // of a block than of the block before, not for want of room
  cut_by_budget,           // a block, to less than one before
  filled_by_block,         // the budget, by draft tokens and the target's token after them
  cannot_be_said,          // the draft token has p = 0
  named,                   // q is a point
  drawn_from_p,            // q is p
  drawn_from_other,        // q is neither
  stop_accepted,              // the draft token is a stop token
  stop_rejected,
  stop_after_refusal,      // the target's token in place of the draft token is one
  stop_after_all,
  penalized_by_draft,      // a row has another distribution for the draft tokens before it
  stopped, cut,            // how the text ended
  // of `rejection` only
  accepted_by_coin, rejected_by_coin,  // 0 < p < q
  one_left, several_left,           // tokens with p > q, after a refusal
  // of trees only
  sibling_accepted,             // in the place of the first draft token there
  sibling_accepted_below,       // ... one that stood in the place of another
  accepted_below_sibling,       // a first draft token, below one that stood in the place of another
  no_sibling_accepted,
  count
};
const char* name_of(Event event) noexcept;

/// Which events the questions make possible beyond those of every rule and chain.
struct Possible {
  bool rejection = false;
  bool trees = false;
};

/// How often each happened.
class Coverage {
 public:
  void add(Event event, long times = 1) { counts_[static_cast<std::size_t>(event)] += times; }
  void add(const Coverage& other);
  long operator[](Event event) const { return counts_[static_cast<std::size_t>(event)]; }

  /// Those that never happened, of those that can.
  std::vector<Event> missing(Possible possible) const;
  /// The one that happened least, of those that can.
  Event rarest(Possible possible) const;

 private:
  std::array<long, static_cast<std::size_t>(Event::count)> counts_{};
};

/// Watches runs of one request in one variation.
class CoverageCounter {
 public:
  /// `target` outlives it.
  CoverageCounter(Model& target, const Request& request, const Variation& variation);

  void add(const Trace& trace);
  const Coverage& met() const noexcept { return met_; }

 private:
  struct Row {
    Distribution p;
    bool penalized_by_draft;
  };
  /// After `text`, of which the last `drafted` tokens are draft tokens.
  const Row& row_after(std::span<const Token> text, std::size_t drafted);
  /// A draft token that is judged by its q, in the place after `text`.
  void add_draft_token(const Round& round, std::span<const Token> text, int draft_token, bool accepted);

  Model& target_;
  const Request request_;
  const bool rejection_;
  std::map<std::pair<std::size_t, std::vector<Token>>, Row> rows_;
  Coverage met_;
};

}  // namespace draftproof
