// SPDX-License-Identifier: MIT
// The replay of one trace, event by event. It opens and closes sequences and passes each round on. Its parts, each in
// the file of its name:
//
//     RowSource      where p comes from: the target's rows, and those that the trace states
//     StatedCoins    random numbers: whether they are those of their keys, and which were drawn before
//     Evidence       what is bet on and what is proved
//     OpenSequence   the text of a sequence so far, and what later rounds are compared with
//     replay_round   one round: from its line, rows and coins follow the findings (round_replay.h)
//     DraftWatch     what the draft of a sequence held and was asked for: faults that cost speed only
//
// A contradiction becomes a finding (findings.h). What the trace merely states is bet on. A field that could not be
// checked is named.
#pragma once

#include <cstdint>
#include <map>

#include "oracle/spectrace/events.h"
#include "oracle/spectrace/evidence.h"
#include "oracle/spectrace/findings.h"
#include "oracle/spectrace/kept_texts.h"
#include "oracle/spectrace/open_sequence.h"
#include "oracle/spectrace/row_source.h"
#include "oracle/spectrace/stated_coins.h"
#include "oracle/spectrace/trace_target.h"

namespace draftproof::spectrace {

class Replayer {
 public:
  /// All outlive it.
  Replayer(const Header& header, const TraceTarget& target, TraceReport& report)
      : header_(header),
        target_(target),
        report_(report),
        rows_(header, target, report),
        evidence_(header, target, rows_, report),
        coins_(header, evidence_.games(), report) {}

  /// Replays one line. Throws TooManyFindings; then only report_evidence() may follow.
  void take(const Event& event);

  /// Ends the replay after the last line. Throws TooManyFindings, too.
  void finish();

  /// Writes the outcome of all bets into the report; also after a replay that ended early.
  void report_evidence() { evidence_.report(); }

 private:
  void open(const SequenceEvent& declared);
  void expect_reused(const OpenSequence& sequence);
  void check_round(const RoundEvent& round);
  void shift_context(const ShiftEvent& shift);
  void end(const EndEvent& end);
  void expect_ended(OpenSequence& sequence, const EndEvent& end);
  Findings here() { return {report_, place_}; }

  const Header& header_;
  const TraceTarget& target_;
  TraceReport& report_;
  RowSource rows_;
  Evidence evidence_;
  StatedCoins coins_;
  std::map<std::int64_t, OpenSequence> sequences_;  // open ones
  KeptTexts kept_;                                  // of ended ones
  TracePlace place_;                                // of the line that is replayed
  long ended_ = 0;                                  // sequences
};

}  // namespace draftproof::spectrace
