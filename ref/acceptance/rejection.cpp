// SPDX-License-Identifier: MIT
// Speculative sampling (Leviathan, Kalman, Matias 2022; Chen et al. 2023) on integer weights with one total.
// A token y is emitted in two ways. As an accepted draft token it has the weight min(p_y, q_y). As the replacement
// after a rejection it has the weight sum(max(q - p, 0)), that of all rejections, times max(p_y - q_y, 0) / sum(max(p -
// q, 0)). p and q have equal totals, so the two sums are equal and cancel: min(p_y, q_y) + max(p_y - q_y, 0) = p_y.
#include <array>
#include <cstdint>

#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

Verdict judge(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  REQUIRE(proposal.drawn_from.size() == proposal.tokens.size(), "every draft token comes with its distribution");
  int last = -1;  // the last accepted draft token
  for (int accepted = 0;; ++accepted) {
    const int first = proposal.first_child(last);
    const Distribution& p = rows.row(last + 1);
    if (first == Proposal::no_node) {
      return {accepted, draw(p, {sequence, position + accepted, Purpose::target}, random), last};
    }
    const Token draft_token = proposal.tokens[first];
    const Distribution& q = proposal.drawn_from[first];
    const std::uint64_t q_x = q.weight(draft_token);
    const std::uint64_t p_x = p.weight(draft_token);
    REQUIRE(q_x > 0, "a draft token can be drawn from the distribution it comes with");
    // A zero weight is never sampled, so a token with p_x = 0 is never accepted.
    const std::array<std::uint64_t, 2> accept_or_reject = {p_x, q_x - p_x};
    if (p_x >= q_x || random.sample_index({sequence, position + accepted, Purpose::accept}, accept_or_reject) == 0) {
      last = first;
      continue;
    }

    // The residual is not empty: p_x < q_x and the totals are equal, so p_y > q_y for another token y. x itself is
    // never drawn from it, so a chain ends here; in a tree, a sibling that equals the drawn token is accepted.
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
