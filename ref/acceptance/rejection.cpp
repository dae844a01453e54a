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

Verdict judge(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  REQUIRE(proposal.drawn_from.size() == proposal.tokens.size(), "every draft token says what it was drawn from");
  int last = -1;  // the last draft token that stands
  for (int accepted = 0;; ++accepted) {
    const int first = proposal.first_child(last);
    const Distribution& p = rows.row(last + 1);
    if (first == Proposal::no_node) {
      return {accepted, draw(p, {sequence, position + accepted, Purpose::target}, random), last};
    }
    const Token draft_token = proposal.tokens[static_cast<std::size_t>(first)];
    const Distribution& q = proposal.drawn_from[static_cast<std::size_t>(first)];
    const std::uint64_t q_x = q.weight(draft_token);
    const std::uint64_t p_x = p.weight(draft_token);
    REQUIRE(q_x > 0, "a draft token can be drawn from the distribution it comes with");
    // A zero weight is never picked: what the target cannot say never stands.
    const std::array<std::uint64_t, 2> accept_or_reject = {p_x, q_x - p_x};
    if (p_x >= q_x || random.sample_index({sequence, position + accepted, Purpose::accept}, accept_or_reject) == 0) {
      last = first;
      continue;
    }

    // Not empty: p_x < q_x and equal totals, so some other p_y > q_y. It is never x, so a chain ends here.
    const Token own = draw(Residual(p, q), {sequence, position + accepted, Purpose::residual}, random);
    const int sibling = proposal.child(last, own);
    if (sibling == Proposal::no_node) return {accepted, own, last};
    last = sibling;
  }
}

}  // namespace

const Rule rejection = {"rejection", "The distribution of the text equals that of plain decoding exactly.",
                        Purpose::draft, judge};

}  // namespace draftproof
