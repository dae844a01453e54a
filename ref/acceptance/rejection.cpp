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
  int last = -1;  // the last guess that stands
  for (int accepted = 0;; ++accepted) {
    const int first = proposal.first_child(last);
    const Distribution& p = rows.row(last + 1);
    if (first == Proposal::no_guess) {
      return {accepted, draw(p, {sequence, position + accepted, Purpose::target}, chance), last};
    }
    const Token guess = proposal.tokens[static_cast<std::size_t>(first)];
    const Distribution& q = proposal.drawn_from[static_cast<std::size_t>(first)];
    const std::uint64_t q_x = q.weight(guess);
    const std::uint64_t p_x = p.weight(guess);
    REQUIRE(q_x > 0, "a guess can be drawn from the distribution it comes with");
    // A zero weight is never picked: what the target cannot say never stands.
    const std::array<std::uint64_t, 2> stands_or_falls = {p_x, q_x - p_x};
    if (p_x >= q_x || chance.pick({sequence, position + accepted, Purpose::accept}, stands_or_falls) == 0) {
      last = first;
      continue;
    }

    // Not empty: p_x < q_x and equal totals, so some other p_y > q_y. It is never x, so a chain ends here.
    const Token own = draw(Residual(p, q), {sequence, position + accepted, Purpose::residual}, chance);
    const int sibling = proposal.child(last, own);
    if (sibling == Proposal::no_guess) return {accepted, own, last};
    last = sibling;
  }
}

}  // namespace

const Rule rejection = {"rejection", "The distribution of the text equals that of plain decoding exactly.",
                        Purpose::draft, judge};

}  // namespace draftproof
