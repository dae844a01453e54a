// SPDX-License-Identifier: MIT
// Block verification (Sun et al. 2024, arXiv 2403.10444) on integers of 64 bits.
//
// Let the draft tokens x_1 ... x_n of a chain be drawn from q_0 ... q_{n-1}, and p_i be the target's row after
// x_1 ... x_i, all with weights of sum T. The rule keeps one integer w_i of 2048 for every i, the share with which at
// least i draft tokens shall be accepted: w_0 = 2048, and w_{i+1} = min(2048, w_i p_i(x) / q_i(x)) for x = x_{i+1},
// rounded up or down by a coin so that it is right on average. It accepts i draft tokens when the coin of i succeeds
// and no coin of a longer prefix does. The coin of i < n succeeds with R_i / (R_i + T (2048 - w_i)), where R_i is the
// sum of the residual r_i(y) = max(w_i p_i(y) - 2048 q_i(y), 0); that of n with w_n / 2048. After i < n draft tokens
// the next token is drawn from r_i, after n from p_n.
//
// Why nothing is lost. Say a text "lives" at i when at least i draft tokens are accepted; given x_1 ... x_i and w_i it
// does with probability w_i / 2048. This holds for n. It holds for i when it holds for i + 1: over x drawn from q_i,
// the probability that it lives at i + 1 is sum of min(q_i(x), w_i p_i(x) / 2048) / T = (w_i T - R_i) / (2048 T), and
// with the coin of i, which is tossed where it does not, it lives with w_i / 2048 in all. So a text that lives at i
// goes on with y as a draft token with weight min(2048 q_i(y), w_i p_i(y)), and as the next token with r_i(y): together
// w_i p_i(y), which is p_i. A text that does not live at i was continued by the target before.
//
// Weights: w p and 2048 q are at most 2^63, and so are all sums of them.
#include <algorithm>
#include <array>
#include <cstdint>

#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr std::uint64_t whole = 2048;
static_assert(whole * Distribution::total == std::uint64_t{1} << 63);

Verdict judge(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  REQUIRE(proposal.drawn_from.size() == proposal.tokens.size(), "every draft token comes with its distribution");
  if (!proposal.is_chain()) return rejection.judge(proposal, rows, sequence, position, random);
  const int length = proposal.size();
  // Draft tokens behind the accepted ones are drawn again in the next round. The coins of this one name it.
  const auto toss = [&](int i, int which, std::uint64_t first, std::uint64_t second) {
    if (second == 0 || first == 0) return second == 0;
    const std::array<std::uint64_t, 2> sides = {first, second};
    return random.sample_index(block_key(sequence, position, i, which), sides) == 0;
  };
  int accepted = 0;      // by the coins so far
  Distribution p_there;  // the row after them
  std::uint64_t w_there = whole;
  std::uint64_t w = whole;
  for (int i = 0; i < length && w > 0; ++i) {
    const Distribution& p = rows.row(i);
    const Distribution& q = proposal.drawn_from[i];
    const std::uint64_t residual = Residual(p, q, w, whole).sum();
    if (residual > 0 && toss(i, 0, residual, Distribution::total * (whole - w))) {
      accepted = i;
      p_there = p;
      w_there = w;
    }
    const std::uint64_t q_x = q.weight(proposal.tokens[i]);
    REQUIRE(q_x > 0, "a draft token can be drawn from the distribution it comes with");
    const std::uint64_t both = std::min(w * p.weight(proposal.tokens[i]), whole * q_x);
    w = both / q_x + (toss(i, 1, q_x - both % q_x, both % q_x) ? 0 : 1);
  }
  if (w > 0 && toss(length, 0, w, whole - w)) {
    return {length, draw(rows.row(length), {sequence, position + length, Purpose::target}, random)};
  }
  // p_there is known: at the first row with a residual w was the whole, so its coin had one side.
  const Key key = {sequence, position + accepted, Purpose::residual};
  return {accepted, draw(Residual(p_there, proposal.drawn_from[accepted], w_there, whole), key, random)};
}

}  // namespace

const Rule block = {"block", "The distribution of the text equals that of plain decoding exactly.", Purpose::draft,
                    judge};

}  // namespace draftproof
