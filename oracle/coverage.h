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

#include "oracle/subject.h"
#include "ref/acceptance/distribution.h"

namespace draftproof {

enum class Event : std::uint8_t {
  first_stood, second_stood, third_stood, fourth_stood,  // of the guesses of a round
  first_fell, second_fell, third_fell, fourth_fell,
  fell_twice,              // in two rounds, one after the other
  all_stood,               // and the target said a token after them
  no_guess,                // where the budget leaves room for some
  no_guess_after_all,      // ... after a round of which every guess stood
  other_length,            // of a block than of the block before, not for want of room
  cut_by_budget,           // a block, to less than one before
  filled_by_block,         // the budget, by guesses and the target's token after them
  cannot_be_said,          // the guess has p = 0
  named,                   // q is a point
  drawn_from_p,            // q is p
  drawn_from_other,        // q is neither
  stop_stood,              // the guess is a stop token
  stop_fell,
  stop_after_refusal,      // the target's token in place of the guess is one
  stop_after_all,
  penalised_by_guess,      // a row has another distribution for the guesses before it
  stopped, cut,            // how the text ended
  // of `rejection` only
  stood_by_chance, fell_by_chance,  // 0 < p < q
  one_left, several_left,           // tokens with p > q, after a refusal
  // of trees only
  another_stood,             // in the place of the first guess there
  another_stood_below,       // ... one that stood in the place of another
  stood_below_another,       // a first guess, below one that stood in the place of another
  none_of_several_stood,
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
class Watch {
 public:
  /// `target` outlives it.
  Watch(Model& target, const Request& request, const Variation& variation);

  void add(const Trace& trace);
  const Coverage& met() const noexcept { return met_; }

 private:
  struct Row {
    Distribution p;
    bool penalised_by_guess;
  };
  /// After `text`, of which the last `guessed` tokens are guesses.
  const Row& row_after(std::span<const Token> text, std::size_t guessed);
  /// A guess that is judged by its q, in the place after `text`.
  void add_guess(const Round& round, std::span<const Token> text, int guess, bool stands);

  Model& target_;
  const Request request_;
  const bool rejection_;
  std::map<std::pair<std::size_t, std::vector<Token>>, Row> rows_;
  Coverage met_;
};

}  // namespace draftproof
