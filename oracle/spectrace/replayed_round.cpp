// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replayed_round.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace draftproof::spectrace {

bool ReplayedRound::ends() const {
  const auto& emitted = round.emitted;
  const bool stopped = !emitted.empty() && (sequence.stops_at(emitted.back()) || rows.complete(sequence, emitted));
  return stopped || static_cast<std::int64_t>(emitted.size()) >= sequence.left();
}

std::string ReplayedRound::about_accepted() const {
  const bool cut_after = round.emitted.size() == accepted() && accepted() < round.draft_tokens.size();
  return cut_after && ends()
             ? "; the text ends in this round: `accepted` counts every draft token that the rule accepts, those behind "
               "that end too"
             : "";
}

void expect_stated(const ReplayedRound& r, const char* check, Token token, double of_row, double stated) {
  r.findings.expect(
      std::fabs(of_row - stated) <= 4 * r.header.unit * std::max(of_row, stated), check,
      [&] { return fmt::format("token {} has in the row {}", token, of_row); },
      [&] { return fmt::format("{}", stated); });
}

}  // namespace draftproof::spectrace
