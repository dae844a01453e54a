// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/acceptance/tiny_decoders.h"

namespace draftproof::block_test {
namespace {

TinyDecoder decoder_of(const Rows& target, const Rows& draft, Judge judge, int draft_tokens) {
  return {target, draft, std::move(judge), {}, always(draft_tokens)};
}

TEST(Block, OneDraftTokenPreservesTheDistributionForEveryPairOfSmallDistributions) {
  long pairs = 0;
  for (const auto& [vocabulary, sum] : {std::pair(1, 3u), {2, 8u}, {3, 5u}, {4, 4u}}) {
    const std::vector<Distribution> all = all_distributions(vocabulary, sum);
    for (const Distribution& p : all) {
      for (const Distribution& q : all) {
        const Rows target = [&](const Text& text) { return text.empty() ? p : Distribution::point(0); };
        const TinyDecoder decoder = decoder_of(
            target, [&](const Text&) { return q; }, block.judge, 1);
        ASSERT_EQ(compute_distribution(decoder, 2), plain_distribution(target, 2)) << "pair " << pairs;
        ++pairs;
      }
    }
  }
  EXPECT_EQ(pairs, 1 + 81 + 441 + 1225);
}

/// All rows of p and q over two tokens with weights of sum 2: every choice of three rows each.
template <class Test>
void for_each_tree_of_halves(const Test& test) {
  const std::vector<Distribution> all = all_distributions(2, 2);
  const auto node = [](const Text& text) { return text.empty() ? 0 : 1 + text[0]; };
  for (int code = 0; code < 729; ++code) {
    std::vector<Distribution> rows;
    for (int i = 0, rest = code; i < 6; ++i, rest /= 3) rows.push_back(all[rest % 3]);
    const Rows target = [&](const Text& text) {
      return text.size() < 2 ? rows[node(text)] : all[(text[0] + 2u * text[1] + 1u) % 3];
    };
    const Rows draft = [&](const Text& text) { return rows[3 + static_cast<std::size_t>(node(text))]; };
    test(target, draft, code);
  }
}

TEST(Block, TwoDraftTokensPreserveTheJointDistributionForEveryTreeOfHalves) {
  for_each_tree_of_halves([](const Rows& target, const Rows& draft, int code) {
    ASSERT_EQ(compute_distribution(decoder_of(target, draft, block.judge, 2), 3), plain_distribution(target, 3))
        << code;
  });
}

TEST(Block, ChainsOfAnyLengthPreserveTheJointDistributionThroughSeveralRounds) {
  const std::vector<Distribution> thirds = all_distributions(3, 4);
  const std::vector<Distribution> halves = all_distributions(2, 3);
  for (std::uint64_t salt = 0; salt < 200; ++salt) {
    const bool wide = salt % 4 == 0;
    const auto& all = wide ? thirds : halves;
    const int length = wide ? 3 : 4;
    for (int draft_tokens = 0; draft_tokens <= 3; ++draft_tokens) {
      const TinyDecoder decoder =
          decoder_of(mixed_rows(all, salt), mixed_rows(all, salt + 1000), block.judge, draft_tokens);
      ASSERT_EQ(compute_distribution(decoder, length), plain_distribution(decoder.target, length))
          << "salt " << salt << ", " << draft_tokens;
    }
  }
}

/// Returns the mean number of accepted draft tokens of a round.
Rational accepted_on_average(const TinyDecoder& decoder, int draft_tokens) {
  Rational sum = 0;
  EnumeratedSource random;
  do {
    random.begin_path();
    Proposal proposal;
    Text drafted;
    for (int i = 0; i < draft_tokens; ++i) {
      proposal.drawn_from.push_back(decoder.draft(drafted));
      proposal.tokens.push_back(draw(proposal.drawn_from.back(), draft_key(0, 0, i, Purpose::draft), random));
      drafted.push_back(proposal.tokens.back());
    }
    TextRows rows(decoder.target, {}, proposal);
    const Verdict verdict = decoder.judge(proposal, rows, 0, 0, random);
    sum += random.probability() * verdict.accepted;
  } while (random.next_path());
  return sum;
}

TEST(Block, AcceptsNeverFewerDraftTokensThanRejectionOnAverage) {
  int more = 0;
  for_each_tree_of_halves([&](const Rows& target, const Rows& draft, int code) {
    const Rational by_block = accepted_on_average(decoder_of(target, draft, block.judge, 2), 2);
    const Rational by_token = accepted_on_average(decoder_of(target, draft, rejection.judge, 2), 2);
    ASSERT_GE(by_block, by_token) << code;
    more += by_block > by_token;
  });
  EXPECT_GT(more, 20);
  const std::vector<Distribution> thirds = all_distributions(3, 4);
  for (std::uint64_t salt = 0; salt < 60; ++salt) {
    const Rows target = mixed_rows(thirds, salt);
    const Rows draft = mixed_rows(thirds, salt + 1000);
    ASSERT_GE(accepted_on_average(decoder_of(target, draft, block.judge, 3), 3),
              accepted_on_average(decoder_of(target, draft, rejection.judge, 3), 3));
  }
}

/// The example of rule.h, and of the paper: 10/9 draft tokens of two by rejection, 11/9 by block verification.
TEST(Block, AcceptsAsManyAsThePaperSays) {
  const Rows target = [](const Text&) { return scaled({1, 2}, 3); };
  const Rows draft = [](const Text&) { return scaled({2, 1}, 3); };
  const auto decimal = [](const Rational& value) { return value.convert_to<double>(); };
  EXPECT_NEAR(decimal(accepted_on_average(decoder_of(target, draft, rejection.judge, 2), 2)), 10.0 / 9, 1e-12);
  EXPECT_NEAR(decimal(accepted_on_average(decoder_of(target, draft, block.judge, 2), 2)), 11.0 / 9, 1e-12);
}

// ---- Wrong rules. Each must change the distribution of some tree, or the enumeration above proves nothing. ----

enum class Mistake {
  none,
  coins_by_position,     // not by round
  replacement_of_token,  // after a block, max(p - q, 0) as rejection has it
  share_not_cut,         // w may be larger than 1 before it is used
  rounded_down,          // w loses what its coin would give back
  coins_from_front,      // the first failing coin ends the block, not the last successful one
};

/// The rule again, with mistakes.
Judge with(Mistake mistake) {
  return [mistake](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                   RandomSource& random) -> Verdict {
    constexpr std::uint64_t whole = 2048;
    const int n = proposal.size();
    const auto key = [&](int i, int which) {
      return mistake == Mistake::coins_by_position ? Key{sequence, position + i, Purpose::accept, which}
                                                   : block_key(sequence, position, i, which);
    };
    const auto toss = [&](int i, int which, std::uint64_t yes, std::uint64_t no) {
      if (yes == 0 || no == 0) return no == 0;
      return random.sample_index(key(i, which), std::array{yes, no}) == 0;
    };
    std::vector<Distribution> p;
    std::vector<std::uint64_t> w = {whole};
    int accepted = -1;
    bool ended = false;
    for (int i = 0; i <= n; ++i) {
      p.push_back(rows.row(i));
      const std::uint64_t share = std::min(w[i], whole);
      if (i == n) {
        if (!ended && toss(i, 0, share, whole - share)) accepted = n;
        break;
      }
      const Distribution& q = proposal.drawn_from[i];
      const std::uint64_t residual = Residual(p[i], q, share, whole).sum();
      const bool success = residual > 0 && toss(i, 0, residual, Distribution::total * (whole - share));
      if (success && !ended) accepted = i;
      if (mistake == Mistake::coins_from_front && i > 0 && !success) ended = true;
      const std::uint64_t q_x = q.weight(proposal.tokens[i]);
      using Wide = unsigned __int128;
      const std::uint64_t max = mistake == Mistake::share_not_cut ? 8 * whole : whole;
      const Wide both = std::min(Wide{w[i]} * p[i].weight(proposal.tokens[i]), Wide{max} * q_x);
      const auto lost = static_cast<std::uint64_t>(both % q_x);
      const bool up = mistake != Mistake::rounded_down && !toss(i, 1, q_x - lost, lost);
      w.push_back(static_cast<std::uint64_t>(both / q_x) + up);
    }
    if (accepted == n) return {n, draw(p[n], {sequence, position + n, Purpose::target}, random)};
    accepted = std::max(accepted, 0);
    const bool of_token = mistake == Mistake::replacement_of_token;
    const Residual rest(p[accepted], proposal.drawn_from[accepted], of_token ? 1 : std::min(w[accepted], whole),
                        of_token ? 1 : whole);
    const Key key_of_next = {sequence, position + accepted, Purpose::residual};
    return {accepted, rest.blocks().empty() ? draw(p[accepted], key_of_next, random) : draw(rest, key_of_next, random)};
  };
}

int trees_that_differ(Mistake mistake) {
  int differing = 0;
  const std::vector<Distribution> all = all_distributions(3, 4);
  for (std::uint64_t salt = 0; salt < 40; ++salt) {
    const Rows target = mixed_rows(all, salt);
    const TinyDecoder decoder = decoder_of(target, mixed_rows(all, salt + 1000), with(mistake), 2);
    differing += compute_distribution(decoder, 4) != plain_distribution(target, 4);
  }
  return differing;
}

TEST(Block, TheCopyWithoutAMistakeIsTheRule) { EXPECT_EQ(trees_that_differ(Mistake::none), 0); }

TEST(Block, EveryMistakeChangesTheDistribution) {
  for (const Mistake mistake : {Mistake::coins_by_position, Mistake::replacement_of_token, Mistake::share_not_cut,
                                Mistake::rounded_down, Mistake::coins_from_front}) {
    EXPECT_GT(trees_that_differ(mistake), 2) << static_cast<int>(mistake);
  }
}

}  // namespace
}  // namespace draftproof::block_test
