// SPDX-License-Identifier: MIT
#include "ref/drafts/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace draftproof::tuner_test {
namespace {

constexpr int most = 16;

struct Shape {
  const char* name;
  double row;          // a row of a verification pass; the first costs 1
  double proposing;    // a proposal
  double draft_token;  // each of its draft tokens
  double reading;      // each token that it observes later than in the round after
};
constexpr Shape shapes[] = {{"a block of a network beside a large target", 0.02, 0.25, 0.005, 0.003},
                            {"a block of a network as slow as its target", 0.1, 1, 0.02, 0.1},
                            {"a small model", 0.03, 0, 0.2, 0.02},
                            {"the target in 4 bits", 0.05, 0, 0.45, 0.2},
                            {"n-grams", 0.03, 0.001, 0, 0},
                            {"n-grams, rows that cost", 0.15, 0.01, 0, 0}};

DraftCosts costs_of(const Shape& shape) {
  DraftCosts costs{.verify = {1}, .draft = {{0}}, .reading = {shape.reading}};
  for (int n = 1; n <= most; ++n) {
    costs.verify.push_back(1 + shape.row * n);
    costs.draft[0].push_back(shape.proposing + shape.draft_token * n);
  }
  return costs;
}

/// Numbers in [0, 1), the same ones everywhere.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  double next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }

 private:
  std::uint64_t state_;
};

/// Whether the draft token at this depth of a round is accepted.
using Accepts = std::function<bool(int round, int depth)>;

struct Decoded {
  double paid = 0;
  int output = 0;
  std::vector<int> lengths;
};

Decoded decode(const DraftCosts& costs, int tokens, const Accepts& accepts) {
  Tuner tuner(costs);
  Decoded decoded;
  int unread = 0;
  for (int round = 0; decoded.output < tokens; ++round) {
    const int n = tuner.length(0, most);
    int accepted = 0;
    while (accepted < n && accepts(round, accepted)) ++accepted;
    tuner.learn({n}, n, accepted);
    decoded.paid += costs.verify[static_cast<std::size_t>(n)] + costs.draft[0][static_cast<std::size_t>(n)];
    if (n > 0) {
      decoded.paid += std::max(0, unread - DraftCosts::observed) * costs.reading[0];
      unread = 0;
    }
    unread += accepted + 1;
    decoded.output += accepted + 1;
    decoded.lengths.push_back(n);
  }
  return decoded;
}

/// Output tokens per cost of the best fixed length, when every draft token is accepted with this probability.
double best_fixed(const DraftCosts& costs, double probability) {
  double best = 1;
  double expected = 1;
  double observed = 0;  // tokens of a round beyond those that the draft's cost includes
  double reached = 1;
  for (std::size_t n = 1; n < costs.verify.size(); ++n) {
    reached *= probability;
    expected += reached;
    if (n >= DraftCosts::observed) observed += reached;
    best = std::max(best, expected / (costs.verify[n] + costs.draft[0][n] + observed * costs.reading[0]));
  }
  return best;
}

TEST(Tuner, ComesWithinFivePercentOfTheBestFixedLength) {
  for (const Shape& shape : shapes) {
    const DraftCosts costs = costs_of(shape);
    for (const double probability : {0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97}) {
      double paid = 0;
      double output = 0;
      for (std::uint64_t run = 0; run < 100; ++run) {
        Numbers numbers(run);
        const Decoded decoded = decode(costs, 500, [&](int, int) { return numbers.next() < probability; });
        paid += decoded.paid;
        output += decoded.output;
      }
      EXPECT_GE(output / paid, 0.95 * best_fixed(costs, probability)) << shape.name << ", " << probability;
    }
  }
}

TEST(Tuner, LosesAgainstPlainDecodingNoMoreThanItSaysWhateverIsAccepted) {
  for (const Shape& shape : shapes) {
    const DraftCosts costs = costs_of(shape);
    Numbers numbers(1);
    const std::vector<Accepts> all = {
        [](int, int) { return false; },
        [](int round, int) { return round % 2 == 0; },                   // trust is rewarded by a rejection
        [](int round, int) { return round < 30; },
        [](int, int depth) { return depth < 1; },
        [&](int, int) { return numbers.next() < 0.3; },
        [&](int round, int) { return (round / 10) % 2 == 0; },
    };
    for (const Accepts& accepts : all) {
      for (const int tokens : {1, 10, 100, 1000, 10000}) {
        const Decoded decoded = decode(costs, tokens, accepts);
        EXPECT_LE(decoded.paid, (1 + Tuner::loss) * decoded.output + Tuner::patience + 1e-9) << shape.name;
      }
    }
  }
}

TEST(Tuner, DraftsNothingAtMostTimesWhenNothingIsAccepted) {
  const Decoded decoded = decode(costs_of(shapes[1]), 1000, [](int, int) { return false; });
  const auto drafting = std::ranges::count_if(decoded.lengths, [](int n) { return n > 0; });
  EXPECT_GT(drafting, 1);  // it tries again
  EXPECT_LT(drafting, 15);
}

TEST(Tuner, FindsADraftThatBecomesGoodAndLeavesOneThatBecomesBad) {
  const DraftCosts costs = costs_of(shapes[0]);
  const Decoded good = decode(costs, 4000, [](int round, int) { return round > 500; });
  EXPECT_GT(good.lengths.back(), 8);
  const Decoded bad = decode(costs, 4000, [](int round, int) { return round < 100; });
  EXPECT_LE(std::ranges::count_if(bad.lengths.end() - 20, bad.lengths.end(), [](int n) { return n > 0; }), 1);
}

TEST(Tuner, ChoosesTheLengthThatTheAcceptanceByDepthAsksFor) {
  const DraftCosts costs = costs_of(shapes[2]);
  for (const int depth : {1, 2, 4}) {
    const Decoded decoded = decode(costs, 2000, [&](int, int at) { return at < depth; });
    EXPECT_EQ(decoded.lengths.back(), depth);
  }
}

TEST(Tuner, TriesADraftThatPaysOnlyWhenMoreIsAcceptedThanItExpects) {
  DraftCosts costs{.verify = {1}, .draft = {{0}}, .reading = {0}};
  for (int n = 1; n <= most; ++n) {
    costs.verify.push_back(1 + 0.1 * n);
    costs.draft[0].push_back(0.8 * n);
  }
  const Decoded good = decode(costs, 200, [](int, int) { return true; });
  EXPECT_LT(good.paid, 0.96 * good.output);
  const Decoded bad = decode(costs, 200, [](int, int) { return false; });
  EXPECT_GT(bad.lengths.front(), 0);
  EXPECT_LE(std::ranges::count_if(bad.lengths, [](int n) { return n > 0; }), 2);
}

TEST(Tuner, NeverExceedsTheLimit) {
  const Tuner tuner(costs_of(shapes[4]));
  for (int limit = 1; limit <= most + 5; ++limit) EXPECT_LE(tuner.length(0, limit), std::min(limit, most));
}

TEST(Tuner, DependsOnNothingButCostsAndRounds) {
  const DraftCosts costs = costs_of(shapes[3]);
  const Accepts accepts = [](int round, int depth) { return (round * 7 + depth * 3) % 5 > 1; };
  EXPECT_EQ(decode(costs, 500, accepts).lengths, decode(costs, 500, accepts).lengths);
}

TEST(Tuner, LeavesARoundToTheStageThatGivesMore) {
  DraftCosts costs = costs_of(shapes[4]);
  costs.draft.push_back(costs_of(shapes[0]).draft[0]);
  costs.reading.push_back(0);
  Tuner tuner(costs);
  for (int round = 0; round < 20; ++round) {
    tuner.learn({8}, 8, 1);
    tuner.learn({0, 8}, 8, 7);
  }
  EXPECT_EQ(tuner.length(0, most), 0);
  EXPECT_GT(tuner.length(1, most), 4);
  for (int round = 0; round < 100; ++round) tuner.learn({0, 4}, 0, 0);
  EXPECT_GT(tuner.length(0, most), 0);
}

/// Neither is expected to pay. The first never does; the second does, once it is tried.
TEST(Tuner, TriesAStageWhateverTheTriesOfAnotherHaveLost) {
  DraftCosts costs{.verify = {1}, .draft = {{0}, {0}}, .reading = {0, 0}};
  for (int n = 1; n <= most; ++n) {
    costs.verify.push_back(1 + 0.1 * n);
    for (auto& stage : costs.draft) stage.push_back(0.8 * n);
  }
  Tuner tuner(costs);
  int drafted[2] = {0, 0};
  for (int round = 0; round < 50; ++round) {
    const int first = tuner.length(0, most);
    const int second = first > 0 ? 0 : tuner.length(1, most);
    if (first > 0) tuner.learn({first}, first, 0);
    else tuner.learn({0, second}, second, second);
    drafted[0] += first > 0;
    drafted[1] += second > 0;
  }
  EXPECT_GT(drafted[0], 0);
  EXPECT_GT(drafted[1], 40);
}

}  // namespace
}  // namespace draftproof::tuner_test
