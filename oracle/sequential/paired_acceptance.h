// SPDX-License-Identifier: MIT
// Tests whether the draft of a second run is worse than that of a first run of the same text. For each token of the
// text it is told whether the token was an accepted draft token in either run. Where only one run accepted, it bets
// that this is the first one. No bet wins on average while the second one has a probability of at least `fair`, given
// everything before. So for a draft of which this holds, P(slower) <= alpha. About 60 tokens that only the first run
// accepted are enough for an alarm. Two runs that accept the same tokens are never called different.
#pragma once

#include <array>
#include <string>

#include "oracle/sequential/acceptance_evidence.h"

namespace draftproof {

class PairedAcceptance {
 public:
  static constexpr double fair = 1.0 / 3;
  static constexpr double alpha = 1e-9;

  /// Takes the next token. `place()` returns where it is, as text; it is called only when a fault may begin here.
  template <class Place>
  void observe(bool in_first, bool in_second, const Place& place) {
    count(in_first, in_second);
    if (in_first == in_second) return;
    if (evidence_.at_lowest()) lowest_ = place();
    bet(in_second);
  }

  /// Accepted draft tokens of each run, and those of them that the other run did not accept.
  const std::array<long, 2>& accepted() const noexcept { return accepted_; }
  const std::array<long, 2>& alone() const noexcept { return alone_; }

  double e_value() const noexcept { return evidence_.e_value(); }
  bool slower() const noexcept { return evidence_.alarm(); }
  /// Returns the place of the first token that the evidence rests on.
  const std::string& slower_from() const noexcept { return from_; }

  /// Returns a line of counts, and one of the alarm. `first` and `second` name the runs: "the first file". Empty when
  /// neither accepted anything.
  std::string text(const std::string& first, const std::string& second) const;

 private:
  void count(bool in_first, bool in_second);
  void bet(bool in_second);

  AcceptanceEvidence evidence_{alpha, AcceptanceEvidence::Side::rare};
  std::array<long, 2> accepted_{};
  std::array<long, 2> alone_{};
  std::string lowest_;  // place of the token after the lowest wealth
  std::string from_;
};

}  // namespace draftproof
