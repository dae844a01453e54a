// SPDX-License-Identifier: MIT
// What the draft of one sequence held and was asked for, round by round: faults that cost speed and change no token.
//
//     DraftWatch watch(declared, findings);
//     watch.expect_held(round, dropped, findings);
//     watch.expect_asked(round, emitted, findings);
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/spectrace/events.h"
#include "oracle/spectrace/findings.h"
#include "ref/drafts/tuner.h"

namespace draftproof::spectrace {

class DraftWatch {
 public:
  DraftWatch(const SequenceEvent& declared, const Findings& findings);

  /// Checks that target and draft hold the text before the anchor, and where the draft places the anchor. `dropped`:
  /// positions, by context shifts.
  void expect_held(const RoundEvent& round, std::int64_t dropped, const Findings& findings);
  /// Checks that a draft proposes no more than it was asked for and, where a tuner chooses that, that it is what the
  /// tuner chooses, which learns from the rounds of the sequence. `emitted`: tokens before the round.
  void expect_asked(const RoundEvent& round, std::int64_t emitted, const Findings& findings);
  /// From here on the cache limits what a draft is asked for, and its size is not stated.
  void shift_context(const Findings& findings);

 private:
  bool expect_asked_as(bool right, const Findings& findings, const auto& expected, const auto& observed);
  void expect_chosen(const RoundEvent& round, const std::vector<int>& asked, std::int64_t drafted, std::int64_t emitted,
                     const Findings& findings);

  std::optional<Tuner> tuner_;       // learns from the rounds so far
  std::int64_t max_new_tokens_ = 0;  // both only with a tuner
  std::int64_t max_draft_tokens_ = 0;
  bool astray_ = false;             // it has held something else than the target; found once
  bool anchor_astray_ = false;      // it has placed an anchor elsewhere; found once
  bool asked_differently_ = false;  // it was asked for another number of draft tokens; found once
};

}  // namespace draftproof::spectrace
