// SPDX-License-Identifier: MIT
#include "oracle/sequential/expected_acceptance.h"

#include <fmt/format.h>

#include <algorithm>

namespace draftproof {

void ExpectedAcceptance::add(ByDepth& sums, std::size_t depth, double probability) {
  if (sums.size() <= depth) sums.resize(depth + 1);
  sums[depth].probability += probability;
  ++sums[depth].draft_tokens;
}

void ExpectedAcceptance::observe(const ByDepth& first, const ByDepth& second) {
  if (first.empty() || second.empty()) return;
  const std::array<const ByDepth*, 2> of_runs{&first, &second};
  for (std::size_t run = 0; run < 2; ++run) {
    ByDepth& sums = sums_[run];
    sums.resize(std::max(sums.size(), of_runs[run]->size()));
    for (std::size_t depth = 0; depth < of_runs[run]->size(); ++depth) {
      sums[depth].probability += (*of_runs[run])[depth].probability;
      sums[depth].draft_tokens += (*of_runs[run])[depth].draft_tokens;
    }
  }
  if (first[0].mean() != second[0].mean()) {
    evidence_.observe(PairedAcceptance::fair, second[0].mean() > first[0].mean());
  }
}

std::string ExpectedAcceptance::text(const std::string& first, const std::string& second) const {
  if (sums_[0].empty()) return "";
  std::string means;
  for (std::size_t depth = 0; depth < std::min(sums_[0].size(), sums_[1].size()); ++depth) {
    means += fmt::format("{}{:.3f} and {:.3f}", depth == 0 ? "" : ", ", sums_[0][depth].mean(), sums_[1][depth].mean());
  }
  std::string text =
      fmt::format("by p and q, draft tokens of depth 0, 1, ... are accepted with probability, in {} and {}: {}\n",
                  first, second, means);
  if (!slower()) return text;
  return text + fmt::format(
                    "PERF_REGRESSION: the draft is worse in {}: in {} of {} sequences that differ its first "
                    "draft tokens are likelier to be accepted\n  e-value {:.3g}, alarm at {:.0e}\n",
                    second, evidence_.accepted(), evidence_.judged(), e_value(), 1 / PairedAcceptance::alpha);
}

}  // namespace draftproof
