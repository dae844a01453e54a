// SPDX-License-Identifier: MIT
#include "oracle/spectrace/replayed_round.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/math64.h"

namespace draftproof::spectrace {

bool ReplayedRound::ends() const {
  const auto& emitted = round.emitted;
  const bool stopped = !emitted.empty() && (sequence.stops_at(emitted.back()) || rows.complete(sequence, emitted));
  return stopped || static_cast<std::int64_t>(emitted.size()) >= sequence.left();
}

std::string ReplayedRound::about_accepted() const {
  const bool cut_after = round.emitted.size() == accepted() && round.verifies(accepted());
  return cut_after && ends()
             ? "; the text ends in this round: `accepted` counts every draft token that the rule accepts, those behind "
               "that end too"
             : "";
}

void expect_stated(const ReplayedRound& r, const char* check, Token token, double of_row, double stated) {
  // Both may be results of a softmax, one in wider reals. Its exponential's argument, a difference that is divided, is
  // rounded twice, and lies no further from 0 than the logarithm of the result.
  const double larger = std::max(of_row, stated);
  const double units = larger > 0 ? 4 - 2 * log64(std::min(larger, 1.0)) : 0;
  r.findings.expect(
      std::fabs(of_row - stated) <= units * r.header.unit * larger, check,
      [&] { return fmt::format("token {} has in the row {}", token, of_row); },
      [&] { return fmt::format("{}", stated); });
}

}  // namespace draftproof::spectrace
