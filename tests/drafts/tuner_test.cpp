// SPDX-License-Identifier: MIT
#include "ref/drafts/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace draftproof::tuner_test {
namespace {

constexpr int max = 16;

struct Shape {
  const char* name;
  double row;          // a row of a verification pass; the first costs 1
  double proposing;    // a proposal
  double draft_token;  // each of its draft tokens
  double reading;      // each token that it observes later than in the round after
  int free = 0;        // draft tokens whose rows cost nothing: the pass waits for its weights meanwhile
  double rows(int drafted) const { return row * std::max(0, drafted - free); }
};
constexpr Shape shapes[] = {{"a block of a network beside a large target", 0.02, 0.25, 0.005, 0.003},
                            {"a block of a network as slow as its target", 0.1, 1, 0.02, 0.1},
                            {"a small model", 0.03, 0, 0.2, 0.02},
                            {"the target in 4 bits", 0.05, 0, 0.45, 0.2},
                            {"n-grams", 0.03, 0.001, 0, 0},
                            {"n-grams, rows that cost", 0.15, 0.01, 0, 0}};

DraftCosts costs_of(const Shape& shape) {
  DraftCosts costs{.verify = {1}, .draft = {{0}}, .reading = {shape.reading}};
  for (int n = 1; n <= max; ++n) {
    costs.verify.push_back(1 + shape.rows(n));
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
    const int n = tuner.length(0, max);
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
        [](int round, int) { return round % 2 == 0; },  // trust is rewarded by a rejection
        [](int round, int) { return round < 30; },
        [](int, int depth) { return depth < 1; },
        [&](int, int) { return numbers.next() < 0.3; },
        [&](int round, int) { return (round / 10) % 2 == 0; },
    };
    for (const Accepts& accepts : all) {
      for (const int tokens : {1, 10, 100, 1000, 10000}) {
        const Decoded decoded = decode(costs, tokens, accepts);
        EXPECT_LE(decoded.paid, (1 + Tuner::loss) * decoded.output + Tuner::loss_at_start + 1e-9) << shape.name;
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
  for (int n = 1; n <= max; ++n) {
    costs.verify.push_back(1 + 0.1 * n);
    costs.draft[0].push_back(0.8 * n);
  }
  const Decoded good = decode(costs, 200, [](int, int) { return true; });
  EXPECT_LT(good.paid, 0.96 * good.output);
  const Decoded bad = decode(costs, 200, [](int, int) { return false; });
  EXPECT_GT(bad.lengths.front(), 0);
  EXPECT_LE(std::ranges::count_if(bad.lengths, [](int n) { return n > 0; }), 2);
}

/// Every fifth proposal goes on to three draft tokens if it is asked to, all others end after one.
TEST(Tuner, AsksForLongProposalsWhereTheyAreAcceptedAndForShortOnesWhereThoseAre) {
  DraftCosts costs{.verify = {1}, .draft = {{0}}, .reading = {0}};
  for (int n = 1; n <= max; ++n) {
    costs.verify.push_back(1 + 0.2 * n);
    costs.draft[0].push_back(0);
  }
  const auto long_ones = [&](bool accepted_when_long) {
    Tuner tuner(costs);
    int asked_for_long = 0;
    for (int round = 0; round < 500; ++round) {
      const int n = tuner.length(0, max);
      const bool is_long = round % 5 == 0;
      const int drafted = std::min(n, is_long ? 3 : 1);
      tuner.learn({n}, drafted, is_long == accepted_when_long ? drafted : 0);
      asked_for_long += round >= 400 && n >= 2;
    }
    return asked_for_long;
  };
  EXPECT_LT(long_ones(false), 40);  // it tries again from time to time
  EXPECT_GT(long_ones(true), 85);
}

/// Every second proposal ends before its next draft token, and all of it is accepted.
TEST(Tuner, CountsThePassesThatAProposalHadWhichEndsEarly) {
  const auto asked_for = [](ProposalWork work) {
    DraftCosts costs = costs_of({"", 0.05, 0, 0.1, 0});
    costs.work = {work};
    Tuner tuner(costs);
    Numbers numbers(1);
    int asked = 0;
    for (int round = 0; round < 500; ++round) {
      const int n = tuner.length(0, max);
      int offered = 1;
      while (offered < max && numbers.next() < 0.5) ++offered;
      const int drafted = std::min(n, offered);
      tuner.learn({n}, drafted, drafted);
      if (round >= 400) asked += n;
    }
    return asked / 100.0;
  };
  EXPECT_GT(asked_for(ProposalWork::passes), 3.5) << "what is asked for in vain costs nothing";
  EXPECT_LT(asked_for(ProposalWork::as_asked), 3);
}

TEST(Tuner, NeverExceedsTheLimit) {
  const Tuner tuner(costs_of(shapes[4]));
  for (int limit = 1; limit <= max + 5; ++limit) EXPECT_LE(tuner.length(0, limit), std::min(limit, max));
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
  EXPECT_EQ(tuner.length(0, max), 0);
  EXPECT_GT(tuner.length(1, max), 4);
  for (int round = 0; round < 100; ++round) tuner.learn({0, 4}, 0, 0);
  EXPECT_GT(tuner.length(0, max), 0);
}

/// Neither is expected to pay. The first never does; the second does, once it is tried.
TEST(Tuner, TriesAStageWhateverTheTriesOfAnotherHaveLost) {
  DraftCosts costs{.verify = {1}, .draft = {{0}, {0}}, .reading = {0, 0}};
  for (int n = 1; n <= max; ++n) {
    costs.verify.push_back(1 + 0.1 * n);
    for (auto& stage : costs.draft) stage.push_back(0.8 * n);
  }
  Tuner tuner(costs);
  int drafted[2] = {0, 0};
  for (int round = 0; round < 50; ++round) {
    const int first = tuner.length(0, max);
    const int second = first > 0 ? 0 : tuner.length(1, max);
    if (first > 0) tuner.learn({first}, first, 0);
    else tuner.learn({0, second}, second, second);
    drafted[0] += first > 0;
    drafted[1] += second > 0;
  }
  EXPECT_GT(drafted[0], 0);
  EXPECT_GT(drafted[1], 40);
}

// From here on the tuner is told what its rounds took by the clock of a simulated machine, and expects something else.

/// A draft of a text: how often it has something to propose, how often a proposal goes on, and its costs.
struct Kind {
  const char* name;
  double proposes;
  double goes_on;
  Shape shape;
  double longer = 1;  // how many times as probably draft tokens of longer proposals are accepted
};
constexpr Kind kinds[] = {{"a block of a network", 1, 1, {"", 0.03, 0.25, 0.005, 0.003}},
                          {"a small model", 1, 1, {"", 0.05, 0, 0.2, 0.02}},
                          {"the target in 4 bits", 1, 1, {"", 0.1, 0, 0.45, 0.02}},
                          {"a target of 4 bits in 4 bits", 1, 1, {"", 0.7, 0, 0.87, 0.1}},
                          {"n-grams", 0.4, 0.9, {"", 0.05, 0.001, 0, 0}},
                          {"n-grams, rows that cost", 0.7, 0.7, {"", 0.15, 0.001, 0, 0}},
                          {"n-grams, rows that cost much", 0.7, 0.7, {"", 0.35, 0.001, 0, 0}},
                          {"n-grams, long ones worse", 0.6, 0.7, {"", 0.5, 0.001, 0, 0}, 0.3},
                          {"n-grams, long ones better", 0.6, 0.7, {"", 0.5, 0.001, 0, 0}, 1.8},
                          {"n-grams that always propose", 1, 1, {"", 0.15, 0.001, 0, 0}},
                          {"n-grams, five rows free", 0.7, 0.8, {"", 0.15, 0.001, 0, 0, 5}},
                          {"n-grams that always propose, five rows free", 1, 1, {"", 0.17, 0.001, 0, 0, 5}},
                          {"a small model, five rows free", 1, 1, {"", 0.15, 0, 0.2, 0.02, 5}},
                          {"a block of a network, five rows free", 1, 1, {"", 0.15, 0.25, 0.005, 0.003, 5}}};

/// How many times as long as on a quiet machine something takes that begins at this time.
using Slowness = double (*)(double time, Numbers& numbers);
double quiet(double, Numbers& numbers) { return 1 + 0.03 * numbers.next(); }
double busy(double, Numbers& numbers) {
  const double slow = 1.6 + 0.8 * numbers.next();
  return numbers.next() < 0.1 ? slow * (2 + 2 * numbers.next()) : slow;
}
double busy_at_first(double time, Numbers& numbers) { return time < 30 ? busy(time, numbers) : quiet(time, numbers); }
double busy_later(double time, Numbers& numbers) { return time > 300 ? busy(time, numbers) : quiet(time, numbers); }
double busy_in_turns(double time, Numbers& numbers) {
  return static_cast<int>(time / 40) % 2 == 0 ? busy(time, numbers) : quiet(time, numbers);
}
double disturbed(double, Numbers& numbers) { return numbers.next() < 0.1 ? 1 + 6 * numbers.next() : 1; }
struct Machine {
  const char* name;
  Slowness slowness;
};
constexpr Machine machines[] = {{"quiet", quiet},
                                {"busy", busy},
                                {"busy at first", busy_at_first},
                                {"busy later", busy_later},
                                {"busy in turns", busy_in_turns},
                                {"disturbed", disturbed}};

ProposalWork work(const Shape& shape) {
  if (shape.draft_token >= 0.1) return ProposalWork::passes;
  return shape.proposing >= 0.1 ? ProposalWork::one_pass : ProposalWork::none;
}

/// Not what the kind costs, and the same for all of its kind.
DraftCosts expected_of(const Kind& kind) { return expected_costs({{max, work(kind.shape)}}, max); }

struct Timed {
  double seconds = 0;
  int output = 0;
  std::vector<RoundSeconds> rounds;
  std::vector<int> lengths;
};

constexpr int tuned = -1;

/// Decodes with a fixed length, or with the tuner's. What is proposed and accepted at a place of the text does not
/// depend on the lengths before.
Timed timed(const Kind& kind, const Machine& machine, double probability, int fixed, int tokens, std::uint64_t seed,
            const DraftCosts& expected) {
  constexpr double plain_seconds = 0.01;
  Tuner tuner(expected);
  Numbers noise(seed);
  Timed run;
  double time = 0;
  int unread = 0;
  while (run.output < tokens) {
    Numbers here(seed * 100003 + static_cast<std::uint64_t>(run.output) * 7919);
    int offered = here.next() < kind.proposes ? 1 : 0;
    while (offered > 0 && offered < max && here.next() < kind.goes_on) ++offered;
    int right = 0;
    const double accepted_here = offered > 1 ? std::min(0.98, probability * kind.longer) : probability;
    while (right < max && here.next() < accepted_here) ++right;
    const int asked = fixed == tuned ? tuner.length(0, max) : fixed;
    const int drafted = std::min(asked, offered);
    const int accepted = std::min(drafted, right);
    double draft = 0;
    if (asked > 0) {
      if (drafted > 0) draft = kind.shape.proposing + kind.shape.draft_token * drafted;
      draft += std::max(0, unread - DraftCosts::observed) * kind.shape.reading;
      unread = 0;
    }
    draft *= machine.slowness(time, noise);
    const double verify = (1 + kind.shape.rows(drafted)) * machine.slowness(time + draft, noise);
    time += draft + verify;
    unread += accepted + 1;
    run.output += accepted + 1;
    run.lengths.push_back(asked);
    run.rounds.push_back({plain_seconds * verify, plain_seconds * draft});
    if (fixed == tuned) tuner.learn({asked}, drafted, accepted, run.rounds.back());
  }
  run.seconds = plain_seconds * time;
  return run;
}

using Expected = std::function<DraftCosts(std::uint64_t seed)>;

/// Tokens per second of `texts` texts of so many tokens.
double rate(const Kind& kind, const Machine& machine, double probability, int fixed, int tokens, std::uint64_t texts,
            const Expected& expected) {
  double seconds = 0;
  double output = 0;
  for (std::uint64_t seed = 1; seed <= texts; ++seed) {
    const Timed one = timed(kind, machine, probability, fixed, tokens, seed, expected(seed));
    seconds += one.seconds;
    output += one.output;
  }
  return output / seconds;
}

/// The tuner's share of the rate of the best fixed length, plain decoding included.
double share(const Kind& kind, const Machine& machine, double probability, int tokens, std::uint64_t texts,
             const Expected& expected) {
  double best = 0;
  for (const int fixed : {0, 1, 2, 3, 4, 6, 8, 12, 16}) {
    best = std::max(best, rate(kind, machine, probability, fixed, tokens, texts, expected));
  }
  return rate(kind, machine, probability, tuned, tokens, texts, expected) / best;
}

/// Shares of the kinds that have free rows, or of all others.
struct Shares {
  double sum = 0;
  double min = 1e9;
  int count = 0;
  void add(double share) {
    sum += share;
    min = std::min(min, share);
    ++count;
  }
};
struct AllShares {
  Shares lines;
  Shares free;
  void add(const Kind& kind, double share) { (kind.shape.free > 0 ? free : lines).add(share); }
  ~AllShares() {
    for (const auto& [name, of] : {std::pair("no row is free", lines), std::pair("rows are free", free)}) {
      std::printf("share of the best fixed length, %s: mean %.3f, least %.3f\n", name, of.sum / of.count, of.min);
    }
  }
};

/// Networks are worst beside other work, whose proposals such a machine measures badly.
TEST(Tuner, ThatMeasuresComesNearTheBestFixedLengthWhateverElseTheMachineDoes) {
  AllShares shares;
  for (const Kind& kind : kinds) {
    for (const Machine& machine : machines) {
      for (const double probability : {0.0, 0.5, 0.9}) {
        const double reached = share(kind, machine, probability, 1000, 4, [&](auto) { return expected_of(kind); });
        shares.add(kind, reached);
        const double min = machine.slowness == quiet ? 0.95 : work(kind.shape) == ProposalWork::none ? 0.93 : 0.9;
        EXPECT_GE(reached, min) << kind.name << ", " << machine.name << ", " << probability;
      }
    }
  }
}

/// Five tokens' time, which the tuner may lose, is 5 % of such a text.
TEST(Tuner, ThatMeasuresComesNearTheBestFixedLengthOfATextOf96Tokens) {
  AllShares shares;
  for (const Kind& kind : kinds) {
    for (const Machine& machine : machines) {
      for (const double probability : {0.0, 0.5, 0.9}) {
        const double reached = share(kind, machine, probability, 96, 24, [&](auto) { return expected_of(kind); });
        shares.add(kind, reached);
        // Where rows are free, five tokens are time for long proposals.
        const double min = (machine.slowness == quiet ? 0.92 : 0.88) - (kind.shape.free > 0 ? 0.05 : 0);
        EXPECT_GE(reached, min) << kind.name << ", " << machine.name << ", " << probability;
      }
    }
  }
}

/// Each of the counts that are measured at first takes up to five times as long as it should; what lies between them is
/// interpolated (ref/decoding/draft_costs.cpp).
DraftCosts measured_at_a_bad_moment(const Shape& shape, std::uint64_t seed) {
  Numbers numbers(seed);
  DraftCosts costs = costs_of(shape);
  for (const bool of_passes : {true, false}) {
    std::vector<double>& curve = of_passes ? costs.verify : costs.draft[0];
    const std::vector<int> counts = {0, 1, 2, 4, 8, 16};
    for (const int n : counts) curve[static_cast<std::size_t>(n)] *= 1 + 4 * numbers.next();
    for (std::size_t i = 1; i + 1 < counts.size(); ++i) {
      const double first = curve[static_cast<std::size_t>(counts[i])];
      const double last = curve[static_cast<std::size_t>(counts[i + 1])];
      const int steps = counts[i + 1] - counts[i];
      for (int step = 1; step < steps; ++step) {
        curve[static_cast<std::size_t>(counts[i] + step)] = first + (last - first) * step / steps;
      }
    }
  }
  costs.reading[0] *= 1 + 4 * numbers.next();
  return costs;
}

TEST(Tuner, IsNotDecidedByCostsThatWereMeasuredAtABadMoment) {
  for (const Kind& kind : kinds) {
    for (const double probability : {0.0, 0.5, 0.9}) {
      const double reached = share(kind, machines[0], probability, 1000, 4,
                                   [&](std::uint64_t seed) { return measured_at_a_bad_moment(kind.shape, seed); });
      EXPECT_GE(reached, 0.93) << kind.name << ", " << probability;
    }
  }
}

}  // namespace
}  // namespace draftproof::tuner_test
