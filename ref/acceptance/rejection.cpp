// SPDX-License-Identifier: MIT
// Leviathan, Kalman, Matias 2022 and Chen et al. 2023, on integer weights of one total. A token y is emitted with
// min(p_y, q_y) by standing, and by replacement with all the weight refused, the sum of max(q - p, 0), times the share
// of y in max(p - q, 0). The totals are equal, so these two sums are one number, it cancels, and
// min(p, q) + max(p - q, 0) = p.
#include <array>
#include <cstdint>

#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

Verdict judge(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  REQUIRE(proposal.drawn_from.size() == proposal.tokens.size(), "every guess says what it was drawn from");
  for (int i = 0; i < proposal.size(); ++i) {
    const Token guess = proposal.tokens[static_cast<std::size_t>(i)];
    const Distribution& q = proposal.drawn_from[static_cast<std::size_t>(i)];
    const Distribution& p = rows.row(i);
    const std::uint64_t q_x = q.weight(guess);
    const std::uint64_t p_x = p.weight(guess);
    REQUIRE(q_x > 0, "a guess can be drawn from the distribution it comes with");
    if (p_x >= q_x) continue;

    // A zero weight is never picked: what the target cannot say never stands.
    const std::array<std::uint64_t, 2> stands_or_falls = {p_x, q_x - p_x};
    if (chance.pick({sequence, position + i, Purpose::accept}, stands_or_falls) == 0) continue;

    // Not empty: p_x < q_x and equal totals, so some other p_y > q_y.
    return {i, draw(Residual(p, q), {sequence, position + i, Purpose::residual}, chance)};
  }
  const int n = proposal.size();
  return {n, draw(rows.row(n), {sequence, position + n, Purpose::target}, chance)};
}

}  // namespace

const Rule rejection = {"rejection", "The distribution of the text equals that of plain decoding exactly.",
                        Purpose::draft, judge};

}  // namespace draftproof
