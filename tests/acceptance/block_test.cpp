// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace draftproof::block_test
