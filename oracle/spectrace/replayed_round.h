// SPDX-License-Identifier: MIT
// One round that is replayed: what the line states, its sequence, and what it is compared with. The functions that
// check a part of it (draft_draws.h, row_decisions.h, logprobs.h) take nothing else, and keep nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "oracle/spectrace/evidence.h"
#include "oracle/spectrace/findings.h"
#include "oracle/spectrace/open_sequence.h"
#include "oracle/spectrace/row_source.h"
#include "oracle/spectrace/stated_coins.h"

namespace draftproof::spectrace {

struct ReplayedRound {
  const Header& header;
  const TraceTarget& target;
  const RoundEvent& round;
  OpenSequence& sequence;
  RowSource& rows;
  StatedCoins& coins;
  Evidence& evidence;
  TraceReport& report;
  Findings findings;  // at the position where the text ended before the round

  bool reals() const noexcept { return header.total == 0; }
  AcceptanceRule rule() const noexcept { return sequence.rule(); }
  std::size_t accepted() const noexcept { return static_cast<std::size_t>(round.accepted); }
  std::int64_t position_of(std::size_t row) const noexcept {
    return findings.place().position + static_cast<std::int64_t>(row);
  }
  std::int64_t position_of_draft_token(std::size_t j) const { return findings.place().position + round.depth(j); }
  std::optional<Stream> target_stream(std::size_t row) const {
    return sequence.is_evidence(position_of(row)) ? std::optional(Stream::target) : std::nullopt;
  }

  /// Returns whether the text ends with the round, by a stop token or its budget.
  bool ends() const;
  /// Returns a likely cause of a finding about `accepted`: that it was counted after the text was cut. Else empty.
  std::string about_accepted() const;
};

/// Checks that a stated probability x equals that of the row, up to the rounding of a softmax: 4 - 2 ln(x) units of x.
void expect_stated(const ReplayedRound& r, const char* check, Token token, double of_row, double stated);

}  // namespace draftproof::spectrace
