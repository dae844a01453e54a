// SPDX-License-Identifier: MIT
// Siblings that were drawn from q without replacement, as trees of other engines have them. A proposal of ours holds
// one drawn draft token at each place (ProposalBuilder), so these rules are no mutants of the loop: they are enumerated
// by themselves. After each rejected sibling both p and q change, and forgetting either is wrong (SafeAILab/EAGLE #20).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

#include "oracle/exact/enumerate.h"

namespace draftproof::zoo::siblings_test {
namespace {

using Weights = std::vector<std::uint64_t>;

enum class Forgets { nothing, residual, used_token, last_residual };

std::uint64_t sum_of(const Weights& weights) { return std::accumulate(weights.begin(), weights.end(), 0ULL); }

/// Verifies two siblings with p, the second only after a rejection. p and q have one total.
std::size_t next_token(const Weights& p, const Weights& q, Forgets fault, RandomSource& random) {
  int draws = 0;
  const auto sample = [&](const Weights& weights) {
    return random.sample_index({0, draws++, Purpose::target}, weights);
  };
  const std::size_t first = sample(q);
  Weights rest = q;
  rest[first] = 0;
  const bool drawn_twice = sum_of(rest) > 0;
  const std::size_t second = drawn_twice ? sample(rest) : first;
  Weights wanted = p;
  Weights offered = q;
  for (const std::size_t sibling : {first, second}) {
    if (sibling == second && !drawn_twice) break;
    // Both totals are made equal, so that the weights can be compared.
    const std::uint64_t wanted_sum = sum_of(wanted);
    const std::uint64_t offered_sum = sum_of(offered);
    for (std::uint64_t& weight : wanted) weight *= offered_sum;
    for (std::uint64_t& weight : offered) weight *= wanted_sum;
    const std::uint64_t stays = std::min(wanted[sibling], offered[sibling]);
    if (stays == offered[sibling] || sample({stays, offered[sibling] - stays}) == 0) return sibling;
    const bool subtracts = sibling == first ? fault != Forgets::residual : fault != Forgets::last_residual;
    for (std::size_t token = 0; subtracts && token < wanted.size(); ++token) {
      wanted[token] -= std::min(wanted[token], offered[token]);
    }
    if (fault != Forgets::used_token) offered = rest;
  }
  return sample(wanted);
}

/// Returns how many pairs of p and q over three tokens give another distribution than p.
int wrong_pairs(Forgets fault, int& pairs) {
  constexpr std::uint64_t total = 5;
  std::vector<Weights> all;
  for (std::uint64_t a = 0; a <= total; ++a) {
    for (std::uint64_t b = 0; a + b <= total; ++b) all.push_back({a, b, total - a - b});
  }
  int wrong = 0;
  for (const Weights& p : all) {
    for (const Weights& q : all) {
      std::array<Rational, 3> found;
      EnumeratedSource random;
      do {
        random.begin_path();
        const std::size_t token = next_token(p, q, fault, random);
        found[token] += random.probability();
      } while (random.next_path());
      bool right = true;
      for (std::size_t token = 0; token < found.size(); ++token) right &= found[token] == Rational(p[token], total);
      wrong += !right;
      ++pairs;
    }
  }
  return wrong;
}

TEST(Siblings, DrawnWithoutReplacementTheyPreserveTheDistributionWhenBothPAndQFollow) {
  int pairs = 0;
  EXPECT_EQ(wrong_pairs(Forgets::nothing, pairs), 0);
  EXPECT_EQ(pairs, 21 * 21);
}

TEST(Siblings, ForgettingWhatARejectionTookIsSeen) {
  for (const Forgets fault : {Forgets::residual, Forgets::used_token, Forgets::last_residual}) {
    int pairs = 0;
    EXPECT_GT(wrong_pairs(fault, pairs), 50) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace draftproof::zoo::siblings_test
