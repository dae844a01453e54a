// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/acceptance/tiny_decoders.h"

namespace draftproof::matching_test {
namespace {

/// Runs the decoder and plain decoding on the same random numbers, on every path; returns the number of paths and how
/// many differ.
struct Count {
  long paths = 0;
  long differing = 0;
};

Count compare(const TinyDecoder& decoder, int length) {
  Count count;
  EnumeratedSource random;
  do {
    random.begin_path();
    const Text text = decoder.decode(length, random);
    count.differing += text != plain_text(decoder.target, length, random);
    ++count.paths;
  } while (random.next_path());
  return count;
}

Drafting shared_noise() {
  Drafting drafting;
  drafting.purpose = matching.draft_noise;
  return drafting;
}

TEST(Matching, TokensEqualPlainDecodingOnEveryPathForEveryPairOfSmallDistributions) {
  Count all_paths;
  long pairs = 0;
  for (int vocabulary = 1; vocabulary <= 4; ++vocabulary) {
    for (std::uint64_t sum = 1; sum <= (vocabulary == 4 ? 5u : 6u); ++sum) {
      const std::vector<Distribution> all = all_distributions(vocabulary, sum);
      for (const Distribution& p : all) {
        for (const Distribution& q : all) {
          const Rows target = [&](const Text& text) { return text.size() == 1 ? q : p; };
          const Rows draft = [&](const Text&) { return q; };
          const TinyDecoder decoder{target, draft, matching.judge, shared_noise(), always(1)};
          const Count count = compare(decoder, 2);
          all_paths.paths += count.paths;
          all_paths.differing += count.differing;
          ++pairs;
        }
      }
    }
  }
  EXPECT_EQ(pairs, 6 + 139 + 1595 + 4877);
  EXPECT_EQ(all_paths.differing, 0);
  EXPECT_EQ(all_paths.paths, 50294);
}

TEST(Matching, TokensEqualPlainDecodingWhateverTheDraftAndItsNoise) {
  const std::vector<Distribution> all = all_distributions(3, 4);
  for (const Purpose noise : {Purpose::target, Purpose::draft, Purpose::residual}) {
    for (std::uint64_t salt = 0; salt < 40; ++salt) {
      for (int draft_tokens = 0; draft_tokens <= 3; ++draft_tokens) {
        Drafting drafting;
        drafting.purpose = noise;
        const TinyDecoder decoder{mixed_rows(all, salt), mixed_rows(all, salt + 1000), matching.judge, drafting,
                                  always(draft_tokens)};
        ASSERT_EQ(compare(decoder, noise == Purpose::target ? 4 : 3).differing, 0) << "salt " << salt;
      }
    }
  }
}

TEST(Matching, TheDistributionIsThatOfPlainDecoding) {
  const std::vector<Distribution> all = all_distributions(2, 3);
  for (std::uint64_t salt = 0; salt < 100; ++salt) {
    const TinyDecoder decoder{mixed_rows(all, salt), mixed_rows(all, salt + 1000), matching.judge, shared_noise(),
                              always(2)};
    ASSERT_EQ(compute_distribution(decoder, 4), plain_distribution(decoder.target, 4)) << salt;
  }
}

TEST(Matching, ADraftThatDrawsFromTheTargetsRowsWithItsKeysIsNeverRejected) {
  const std::vector<Distribution> all = all_distributions(3, 4);
  for (std::uint64_t salt = 0; salt < 40; ++salt) {
    const Rows rows = mixed_rows(all, salt);
    const Judge judge = [](const Proposal& proposal, TargetRows& target, int sequence, int position,
                           RandomSource& random) {
      const Verdict verdict = matching.judge(proposal, target, sequence, position, random);
      EXPECT_EQ(verdict.accepted, proposal.size());
      return verdict;
    };
    EXPECT_EQ(compare({rows, rows, judge, shared_noise(), always(3)}, 4).differing, 0);
  }
}

// ---- Wrong rules. ----

long paths_that_differ(const Judge& judge) {
  const std::vector<Distribution> all = all_distributions(3, 4);
  long differing = 0;
  for (std::uint64_t salt = 0; salt < 20; ++salt) {
    const TinyDecoder decoder{mixed_rows(all, salt), mixed_rows(all, salt + 1000), judge, shared_noise(), always(2)};
    differing += compare(decoder, 3).differing;
  }
  return differing;
}

TEST(MatchingMutants, EveryDraftTokenIsAccepted) {
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                 RandomSource& random) -> Verdict {
              const int n = proposal.size();
              return {n, draw(rows.row(n), {sequence, position + n, Purpose::target}, random)};
            }),
            0);
}

TEST(MatchingMutants, KeysCountFromTheStartOfTheRound) {
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int, RandomSource& random) {
              return matching.judge(proposal, rows, sequence, 0, random);
            }),
            0);
}

TEST(MatchingMutants, KeysOfTheAcceptanceTest) {
  class Misnamed final : public RandomSource {
   public:
    explicit Misnamed(RandomSource& random) : random_(random) {}
    std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override {
      return random_.sample_index({key.sequence, key.position, Purpose::accept}, weights);
    }

   private:
    RandomSource& random_;
  };
  EXPECT_GT(paths_that_differ(
                [](const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
                  Misnamed misnamed(random);
                  return matching.judge(proposal, rows, sequence, position, misnamed);
                }),
            0);
}

TEST(MatchingMutants, RowsAreReadOneRowTooEarly) {
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                 RandomSource& random) -> Verdict {
              for (int i = 0;; ++i) {
                const Token own = draw(rows.row(std::max(0, i - 1)), {sequence, position + i, Purpose::target}, random);
                if (i == proposal.size() || own != proposal.tokens[i]) return {i, own};
              }
            }),
            0);
}

TEST(MatchingMutants, ADraftTokenIsAcceptedWhenTheTargetCouldEmitIt) {
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                 RandomSource& random) -> Verdict {
              for (int i = 0;; ++i) {
                const Token own = draw(rows.row(i), {sequence, position + i, Purpose::target}, random);
                if (i == proposal.size()) return {i, own};
                if (rows.row(i).weight(proposal.tokens[i]) == 0) return {i, own};
              }
            }),
            0);
}

TEST(Rules, AreFoundByName) {
  EXPECT_EQ(find_rule("matching"), &matching);
  EXPECT_EQ(find_rule("rejection"), &rejection);
  EXPECT_EQ(find_rule("sampling"), nullptr);
}

TEST(Rules, APointDistributionGivesTheSameDecisionUnderBoth) {
  for (Token own = 0; own < 3; ++own) {
    for (Token draft_token = 0; draft_token < 3; ++draft_token) {
      Proposal proposal;
      proposal.tokens = {draft_token};
      proposal.drawn_from = {Distribution::point(draft_token)};
      const Rows rows = [&](const Text&) { return Distribution::point(own); };
      for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
        TextRows target(rows, {}, proposal);
        PhiloxSource random(3);
        EXPECT_EQ((*rule)->judge(proposal, target, 0, 5, random), (Verdict{own == draft_token, own})) << (*rule)->name;
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::matching_test
