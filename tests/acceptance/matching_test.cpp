// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/acceptance/laws.h"

namespace draftproof {
namespace {

/// Runs the decoder and plain decoding on the same numbers, on every path; returns the paths, and how many differ.
struct Count {
  long paths = 0;
  long differing = 0;
};

Count compare(const TinyDecoder& decoder, int length) {
  Count count;
  EnumeratedChance chance;
  do {
    chance.begin_path();
    const Text text = decoder.decode(length, chance);
    count.differing += text != plain_text(decoder.target, length, chance);
    ++count.paths;
  } while (chance.next_path());
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
      for (int guesses = 0; guesses <= 3; ++guesses) {
        Drafting drafting;
        drafting.purpose = noise;
        const TinyDecoder decoder{mixed_rows(all, salt), mixed_rows(all, salt + 1000), matching.judge, drafting,
                                  always(guesses)};
        ASSERT_EQ(compare(decoder, noise == Purpose::target ? 4 : 3).differing, 0) << "salt " << salt;
      }
    }
  }
}

TEST(Matching, TheLawIsThatOfPlainDecoding) {
  const std::vector<Distribution> all = all_distributions(2, 3);
  for (std::uint64_t salt = 0; salt < 100; ++salt) {
    const TinyDecoder decoder{mixed_rows(all, salt), mixed_rows(all, salt + 1000), matching.judge, shared_noise(),
                              always(2)};
    ASSERT_EQ(law_of(decoder, 4), plain_law(decoder.target, 4)) << salt;
  }
}

TEST(Matching, ADraftThatDrawsFromTheTargetsRowsUnderItsKeysIsNeverRefused) {
  const std::vector<Distribution> all = all_distributions(3, 4);
  for (std::uint64_t salt = 0; salt < 40; ++salt) {
    const Rows rows = mixed_rows(all, salt);
    const Judge judge = [](const Proposal& proposal, TargetRows& target, int sequence, int position, Chance& chance) {
      const Verdict verdict = matching.judge(proposal, target, sequence, position, chance);
      EXPECT_EQ(verdict.accepted, proposal.size());
      return verdict;
    };
    EXPECT_EQ(compare({rows, rows, judge, shared_noise(), always(3)}, 4).differing, 0);
  }
}

// ---- Rules that are wrong. ----

long paths_that_differ(const Judge& judge) {
  const std::vector<Distribution> all = all_distributions(3, 4);
  long differing = 0;
  for (std::uint64_t salt = 0; salt < 20; ++salt) {
    const TinyDecoder decoder{mixed_rows(all, salt), mixed_rows(all, salt + 1000), judge, shared_noise(), always(2)};
    differing += compare(decoder, 3).differing;
  }
  return differing;
}

TEST(MatchingMutants, EveryGuessStands) {
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                 Chance& chance) -> Verdict {
              const int n = proposal.size();
              return {n, draw(rows.row(n), {sequence, position + n, Purpose::target}, chance)};
            }),
            0);
}

TEST(MatchingMutants, KeysCountFromTheStartOfTheRound) {
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int, Chance& chance) {
              return matching.judge(proposal, rows, sequence, 0, chance);
            }),
            0);
}

TEST(MatchingMutants, KeysOfTheAcceptanceTest) {
  class Misnamed final : public Chance {
   public:
    explicit Misnamed(Chance& chance) : chance_(chance) {}
    std::size_t pick(const Key& key, std::span<const std::uint64_t> weights) override {
      return chance_.pick({key.sequence, key.position, Purpose::accept}, weights);
    }

   private:
    Chance& chance_;
  };
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                 Chance& chance) {
              Misnamed misnamed(chance);
              return matching.judge(proposal, rows, sequence, position, misnamed);
            }),
            0);
}

TEST(MatchingMutants, RowsAreReadOneTooEarly) {
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                 Chance& chance) -> Verdict {
              for (int i = 0;; ++i) {
                const Token own = draw(rows.row(std::max(0, i - 1)), {sequence, position + i, Purpose::target}, chance);
                if (i == proposal.size() || own != proposal.tokens[static_cast<std::size_t>(i)]) return {i, own};
              }
            }),
            0);
}

TEST(MatchingMutants, AGuessStandsWhenTheTargetCouldHaveSaidIt) {
  EXPECT_GT(paths_that_differ([](const Proposal& proposal, TargetRows& rows, int sequence, int position,
                                 Chance& chance) -> Verdict {
              for (int i = 0;; ++i) {
                const Token own = draw(rows.row(i), {sequence, position + i, Purpose::target}, chance);
                if (i == proposal.size()) return {i, own};
                if (rows.row(i).weight(proposal.tokens[static_cast<std::size_t>(i)]) == 0) return {i, own};
              }
            }),
            0);
}

TEST(Rules, AreFoundByName) {
  EXPECT_EQ(find_rule("matching"), &matching);
  EXPECT_EQ(find_rule("rejection"), &rejection);
  EXPECT_EQ(find_rule("guessing"), nullptr);
}

TEST(Rules, APointIsTheSameDecisionUnderBoth) {
  for (Token own = 0; own < 3; ++own) {
    for (Token guess = 0; guess < 3; ++guess) {
      Proposal proposal;
      proposal.tokens = {guess};
      proposal.drawn_from = {Distribution::point(guess)};
      const Rows rows = [&](const Text&) { return Distribution::point(own); };
      for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
        TextRows target(rows, {}, proposal);
        SeededChance chance(3);
        EXPECT_EQ((*rule)->judge(proposal, target, 0, 5, chance), (Verdict{own == guess, own})) << (*rule)->name;
      }
    }
  }
}

}  // namespace
}  // namespace draftproof
