// SPDX-License-Identifier: MIT
// The e-process on right decoders, with an alarm in one of 1 / alpha texts at most, and on wrong ones. Slow: 1000 right
// texts of 100 000 tokens, and the tokens until an alarm for every fault (fixtures/snapshots/e_process.txt;
// DRAFTPROOF_ACCEPT=1 in the environment rewrites it).
#include "oracle/sequential/e_process.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string_view>

#include "kernels/math64.h"
#include "oracle/sequential/coin_evidence.h"
#include "oracle/sequential/rounded_distribution.h"
#include "tests/oracle/coin_faults.h"
#include "tests/oracle/positions.h"

namespace draftproof::e_process_test {
namespace {

using testing::HasSubstr;
using Settings = EProcess::Settings;
using Stakes = EProcess::Stakes;

/// Returns the distribution of a row that was written as float32.
RoundedDistribution in_float32(const Distribution& distribution) {
  std::vector<double> weights;
  for (const std::uint64_t weight : distribution.weights()) {
    weights.push_back(static_cast<float>(static_cast<double>(weight) * 0x1p-52));
  }
  return rounded_distribution(distribution.tokens(), weights, 0x1p-23);
}

/// Positions that are repeated in random order, and the payments of every bet there.
class World {
 public:
  World(const Settings& settings, int positions, std::span<const FaultModel> models = fault_models()) {
    for (int index = 0; index < positions; ++index) {
      places_.push_back({position_of(settings.vocabulary, index), {}, {}, {}});
      Place& place = places_.back();
      place.stakes = std::make_unique<Stakes>(settings, place.position.p, &place.position.q, models);
      const RoundedDistribution p = in_float32(place.position.p);
      const RoundedDistribution q = in_float32(place.position.q);
      const Settings of_reals = {settings.vocabulary, settings.alpha, p.slack + q.slack};
      place.of_reals = std::make_unique<Stakes>(of_reals, p.distribution, &q.distribution, models);
      place.p = table_of(place.position.p, settings.vocabulary);
    }
  }

  std::size_t size() const { return places_.size(); }
  const Position& position(std::size_t index) const { return places_[index].position; }
  const Stakes& stakes(std::size_t index) const { return *places_[index].stakes; }
  /// The same with rows of float32.
  const Stakes& stakes_of_reals(std::size_t index) const { return *places_[index].of_reals; }

  /// One weight for each token, so that a draw is an index.
  static std::vector<std::uint64_t> table_of(const Distribution& distribution, int vocabulary) {
    std::vector<std::uint64_t> table;
    for (Token token = 0; token < vocabulary; ++token) table.push_back(distribution.weight(token));
    return table;
  }

  /// Returns position and token number `n` of a text; the token is drawn from p or, if given, from another
  /// distribution.
  struct Step {
    std::size_t position;
    Token token;
  };
  using Tables = std::vector<std::vector<std::uint64_t>>;  // one for each position
  Step step(PhiloxSource& random, int text, int n, const Tables* models = nullptr) const {
    const auto position = static_cast<std::size_t>(random.below({text, n, Purpose::draft}, places_.size()));
    const auto& weights = models == nullptr ? places_[position].p : (*models)[position];
    return {position, static_cast<Token>(random.sample_index({text, n, Purpose::target}, weights))};
  }

 private:
  struct Place {
    Position position;
    std::unique_ptr<Stakes> stakes, of_reals;
    std::vector<std::uint64_t> p;
  };
  std::vector<Place> places_;
};

constexpr Settings small = {.vocabulary = 12};

/// Returns how many of `texts` right texts raise an alarm at each alpha.
template <class Observe>
std::map<double, int> false_alarms(const Settings& settings, int texts, int tokens, std::span<const FaultModel> models,
                                   const Observe& before_token, const std::vector<double>& alphas) {
  const World world(settings, 200, models);
  PhiloxSource random(2024);
  std::map<double, int> alarms;
  for (int text = 0; text < texts; ++text) {
    EProcess process(settings, models);
    for (int n = 0; n < tokens; ++n) {
      const auto [position, token] = world.step(random, text, n);
      before_token(token);
      process.observe(world.stakes(position), world.stakes(position).place_of(token));
    }
    for (const double alpha : alphas) alarms[alpha] += process.e_value() * alpha >= 1;
  }
  return alarms;
}

TEST(EProcess, RaisesNoAlarmForRightDecoders) {
  const auto alarms = false_alarms(small, 200, 3000, fault_models(), [](Token) {}, {0.05, 1e-9});
  EXPECT_EQ(alarms.at(1e-9), 0);
  EXPECT_LE(alarms.at(0.05), 10) << "of 200";
}

Token peeked = 0;  // by the bet below

TEST(EProcess, TheSameTestFindsABetChosenAfterTheToken) {
  static constexpr FaultModel peeking[] = {
      {"peeking", "", false, [](const PositionDistributions& l, std::vector<double>& r) {
         for (std::size_t i = 0; i < r.size(); ++i) r[i] = l.tokens[i] == peeked;
       }}};
  const Settings settings = small;
  const World world(settings, 200);
  PhiloxSource random(2024);
  int alarms = 0;
  for (int text = 0; text < 20; ++text) {
    EProcess process(settings, peeking);
    for (int n = 0; n < 3000; ++n) {
      const auto [position, token] = world.step(random, text, n);
      peeked = token;
      process.observe(world.position(position).p, &world.position(position).q, token);
    }
    alarms += process.alarm();
  }
  EXPECT_EQ(alarms, 20);
}

TEST(EProcess, TheSameTestFindsAnUnnormalizedBet) {
  static constexpr FaultModel generous[] = {
      {"generous", "", false, [](const PositionDistributions& l, std::vector<double>& r) {
         for (std::size_t i = 0; i < r.size(); ++i) r[i] = 1.03 * l.p[i];
       }}};
  EXPECT_EQ(false_alarms(small, 20, 3000, generous, [](Token) {}, {1e-9}).at(1e-9), 20);
}

TEST(EProcess, ATokenWithProbabilityZeroIsProof) {
  EProcess process(small);
  process.observe(Distribution::point(3), nullptr, 3);
  EXPECT_FALSE(process.alarm());
  process.observe(Distribution::point(3), nullptr, 4);
  EXPECT_TRUE(process.alarm());
  EXPECT_TRUE(std::isinf(process.e_value()));
  EXPECT_THAT(process.describe(), HasSubstr("has probability 0"));
}

TEST(EProcess, EveryTokenCounts) {
  const Distribution half = in_proportion({1, 1, 0});
  for (int wrong = 0; wrong < 200; ++wrong) {
    EProcess process(small);
    for (int n = 0; n < 200; ++n) process.observe(half, nullptr, n == wrong ? 2 : n % 2);
    EXPECT_EQ(process.tokens(), 200);
    EXPECT_TRUE(process.alarm()) << wrong;
  }
}

TEST(EProcess, CertainTokensProveNothing) {
  EProcess process(small);
  for (int n = 0; n < 1000; ++n) process.observe(Distribution::point(n % 12), nullptr, n % 12);
  EXPECT_NEAR(process.e_value(), 1, 1e-6);
}

TEST(EProcess, ContinuesAfterAnAlarm) {
  const Distribution fair = in_proportion(std::vector<double>(12, 1.0));
  EProcess process(small);
  for (int n = 0; n < 5000; ++n) process.observe(fair, nullptr, 0);
  EXPECT_GT(process.e_value(), 1e200);
  EXPECT_TRUE(std::isfinite(process.e_value()));
  EXPECT_EQ(process.tokens(), 5000);
  EXPECT_THAT(process.describe(), HasSubstr("does not have the target's distribution"));
}

TEST(EProcess, AFaultThatBeginsLateIsFound) {
  const World world(small, 200);
  std::vector<std::vector<std::uint64_t>> q;
  for (std::size_t i = 0; i < world.size(); ++i) q.push_back(World::table_of(world.position(i).q, 12));
  PhiloxSource random(1);
  EProcess process(small);
  int late = 0;
  for (int n = 0; n < 60000 && !process.alarm(); ++n) {
    const auto [position, token] = world.step(random, 0, n, n < 50000 ? nullptr : &q);
    const Stakes& stakes = world.stakes(position);
    if (stakes.place_of(token) == stakes.never()) continue;  // proof would end the test too early
    process.observe(stakes, stakes.place_of(token));
    late += n >= 50000;
  }
  EXPECT_TRUE(process.alarm());
  EXPECT_GT(late, 0);
  EXPECT_LT(late, 2000);
  EXPECT_EQ(process.suspect(), "accept the possible");  // tokens with p = 0 were left out
}

TEST(EProcess, TheSmallestDeviationIsSmallerWithMoreTokensAndLargerUnderSlack) {
  EProcess few(small);
  EXPECT_EQ(few.smallest_deviation(), 1);
  EProcess many(small);
  Settings foreign = small;
  foreign.slack = 0.01;
  EProcess slack(foreign);
  for (int n = 0; n < 100; ++n) few.observe(Distribution::point(1), nullptr, 1);
  for (int n = 0; n < 10000; ++n) {
    many.observe(Distribution::point(1), nullptr, 1);
    slack.observe(Distribution::point(1), nullptr, 1);
  }
  // 73 bets, 156 intervals: ln(73e9) + 2 ln 100 + 156 * 2^-14 = 34.31
  EXPECT_NEAR(many.smallest_deviation(), std::sqrt(34.31 / 10000), 1e-4);
  EXPECT_GT(few.smallest_deviation(), 0.5);
  EXPECT_NEAR(slack.smallest_deviation(), 0.02 + std::sqrt(0.0004 + 34.31 / 10000), 1e-4);
}

// Bets that use the text.

/// A text of rounds: some tokens follow a rejection, and the draft tokens dropped with it are known then.
class Rounds {
 public:
  Rounds(const World& world, int text) : world_(world), text_(text) {}

  /// Returns what `say` makes of a draw from p; `rejected` is none where the last round accepted everything.
  using Say = std::function<Token(Token drawn, std::optional<Token> rejected, const std::vector<Token>& before)>;

  void feed(EProcess& process, int tokens, const Say& say, double slack = 0) {
    for (int n = 0; n < tokens && !process.alarm(); ++n) {
      const auto [position, drawn] = world_.step(random_, text_, n);
      const Position& here = world_.position(position);
      std::vector<Token> dropped;
      for (std::uint64_t i = random_.below({text_, n, Purpose::accept}, 4); i > 0; --i) {
        dropped.push_back(static_cast<Token>(random_.below({text_, 8 * n + static_cast<int>(i), Purpose::accept}, 12)));
      }
      const auto rejected = dropped.empty() ? std::nullopt : std::optional(dropped[0]);
      const Token token = say(drawn, rejected, before_);
      if (here.p.weight(token) == 0 && slack == 0) continue;
      process.observe(here.p, n % 2 ? &here.q : nullptr, token, {before_, dropped, slack});
      before_.push_back(token);
    }
  }

 private:
  const World& world_;
  int text_;
  PhiloxSource random_{77};
  std::vector<Token> before_;
};

TEST(EProcess, BetsOnTheTextBeforeRaiseNoAlarmForRightDecoders) {
  const World world(small, 200);
  int alarms = 0;
  for (int text = 0; text < 100; ++text) {
    EProcess process({.vocabulary = 12, .alpha = 0.05});
    Rounds(world, text).feed(process, 500, [](Token drawn, auto, const auto&) { return drawn; });
    alarms += process.alarm();
  }
  EXPECT_LE(alarms, 5) << "of 100";
}

TEST(EProcess, TheSameTestFindsADraftTokenDrawnWithTheTokensNumber) {
  const World world(small, 200);
  PhiloxSource random(2024);
  EProcess process(small);
  for (int n = 0; n < 3000; ++n) {
    const auto [position, token] = world.step(random, 0, n);
    process.observe(world.position(position).p, nullptr, token, {{}, std::span(&token, 1), 0});
  }
  EXPECT_TRUE(process.alarm());
}

TEST(EProcess, AStaleProposalIsFoundWithinSomeHundredTokens) {
  const World world(small, 200);
  for (int text = 0; text < 20; ++text) {
    EProcess process(small);
    Rounds(world, text).feed(process, 500, [](Token drawn, std::optional<Token> rejected, const auto& before) {
      return rejected && before.size() % 2 == 0 ? *rejected : drawn;
    });
    EXPECT_TRUE(process.alarm()) << text;
    EXPECT_THAT(process.suspect(), testing::AnyOf("emits the rejected draft token", "tokens by the text before"));
  }
}

TEST(EProcess, ATextThatRepeatsItselfIsFoundWithinSomeHundredTokens) {
  const World world(small, 200);
  for (const std::size_t back : {1, 3, 9}) {
    EProcess process(small);
    Rounds(world, 1).feed(process, 900, [&](Token drawn, auto, const std::vector<Token>& before) {
      return before.size() >= back && before.size() % 3 == 0 ? before[before.size() - back] : drawn;
    });
    EXPECT_TRUE(process.alarm()) << back;
  }
}

TEST(EProcess, TokensOfASuspectedModelAreFoundAndNamedAndThoseOfTheTargetAreNot) {
  const World world(small, 200);
  enum class From { target, suspect, target_seen_by_a_suspect };
  /// Returns the test of tokens that come from p, or from the suspect's distribution, which is close to p.
  const auto test = [&](From from, double alpha, double slack, int text) {
    EProcess process({.vocabulary = 12, .alpha = alpha, .slack = slack, .suspects = {"nobody", "the other"}});
    PhiloxSource random(static_cast<std::uint64_t>(text));
    for (int n = 0; n < 3000 && !process.alarm(); ++n) {
      const auto [position, drawn] = world.step(random, text, n);
      const Distribution& p = world.position(position).p;
      std::vector<std::uint64_t> close = World::table_of(p, 12);  // an eighth of its weight goes one token further
      for (std::size_t i = 0; i < 12; ++i) {
        const std::uint64_t moved = p.weight(static_cast<Token>(i)) / 8;
        close[i] -= moved;
        close[(i + 1) % 12] += moved;
      }
      std::vector<Token> tokens(12);
      std::iota(tokens.begin(), tokens.end(), 0);
      std::vector<std::optional<Distribution>> suspected = {std::nullopt, Distribution::exact(tokens, close)};
      if (from == From::target_seen_by_a_suspect) suspected[1] = Distribution::point(drawn);
      const Token token =
          from == From::suspect ? static_cast<Token>(random.sample_index({text, n, Purpose::accept}, close)) : drawn;
      if (p.weight(token) == 0) continue;
      EProcess::Known known;
      known.suspected = suspected;
      process.observe(p, nullptr, token, known);
    }
    return process;
  };
  int alarms = 0;
  for (int text = 0; text < 60; ++text) alarms += test(From::target, 0.05, text % 2 * 0.01, text).alarm();
  EXPECT_LE(alarms, 3) << "of 60";
  for (const double slack : {0.0, 0.01}) {
    const EProcess found = test(From::suspect, 1e-9, slack, 1);
    EXPECT_TRUE(found.alarm()) << found.e_value();
    EXPECT_EQ(found.suspect(), "the other");
  }
  EXPECT_TRUE(test(From::target_seen_by_a_suspect, 1e-9, 0, 1).alarm()) << "the test sees a bet made after the token";
}

TEST(EProcess, AllTokensOfTheTextMayBeMissingFromP) {
  EProcess process(small);
  const std::vector<Token> text = {5, 6, 7, 5};
  for (int n = 0; n < 100; ++n) process.observe(Distribution::point(1), nullptr, 1, {text, text, 0});
  EXPECT_NEAR(process.e_value(), 1, 1e-6);
}

TEST(EProcess, SlackPerTokenEqualsSlackOfTheSettings) {
  const World world(small, 200);
  EProcess of_settings({.vocabulary = 12, .slack = 0.02});
  EProcess of_tokens(small);
  const auto uneven = [](Token drawn, auto, const auto&) { return drawn / 2; };
  Rounds(world, 3).feed(of_settings, 300, uneven, 0.01);
  Rounds(world, 3).feed(of_tokens, 300, uneven, 0.02);
  EXPECT_EQ(of_settings.e_value(), of_tokens.e_value());
  EXPECT_EQ(of_settings.smallest_deviation(), of_tokens.smallest_deviation());
  EXPECT_TRUE(std::isfinite(of_tokens.e_value())) << "with slack a token with p = 0 is no proof";
  of_tokens.observe(Distribution::point(3), nullptr, 4);
  EXPECT_TRUE(std::isinf(of_tokens.e_value())) << "without slack it is";
}

TEST(EProcess, TheSmallestDeviationUsesTheLargestSlack) {
  EProcess process(small);
  for (int n = 0; n < 10000; ++n) process.observe(Distribution::point(1), nullptr, 1, {{}, {}, n == 5 ? 0.02 : 0.001});
  EXPECT_NEAR(process.smallest_deviation(), 0.04 + std::sqrt(0.0016 + 34.31 / 10000), 1e-4);
}

TEST(EProcess, StakesOfOneTokenPayLikeStakesOfAllTokens) {
  for (const double slack : {0.0, 0.02}) {
    Settings settings;
    settings.vocabulary = 24;
    settings.slack = slack;
    EProcess all(settings);
    EProcess one(settings);
    for (int index = 0; index < 200; ++index) {
      const Position position = position_of(settings.vocabulary, index);
      const Distribution* const q = index % 3 == 0 ? nullptr : &position.q;
      const Token token = index % 24;
      if (position.p.weight(token) == 0 && slack == 0) continue;
      const Stakes stakes(settings, position.p, q);
      all.observe(stakes, stakes.place_of(token));
      one.observe(position.p, q, token);
      ASSERT_EQ(all.e_value(), one.e_value()) << index;
      ASSERT_EQ(all.suspect(), one.suspect()) << index;
    }
  }
}

TEST(EProcess, ReturnsHowManyMoreTokensShowADeviation) {
  EProcess none({.vocabulary = 4});
  const auto missing = none.tokens_until(1);
  ASSERT_TRUE(missing.has_value());
  const Distribution even = in_proportion({1, 1, 1, 1});
  for (long token = 1; token < *missing; ++token) none.observe(even, nullptr, static_cast<Token>(token % 4));
  EXPECT_EQ(none.smallest_deviation(), 1);
  EXPECT_EQ(none.tokens_until(1), 1);
  none.observe(even, nullptr, 0);
  EXPECT_LT(none.smallest_deviation(), 1);
  EXPECT_EQ(none.tokens_until(1), 0);
  EXPECT_EQ(EProcess({.vocabulary = 4, .slack = 0.25}).tokens_until(1), std::nullopt);
}

TEST(EProcessSlow, ATokenOfALargeVocabularyCostsLittleComparedWithItsPass) {
  constexpr int vocabulary = 150000;
  const Position position = position_of(vocabulary, 1);
  EProcess process({.vocabulary = vocabulary});
  constexpr int tokens = 10;
  const std::clock_t start = std::clock();  // of this process, so that a busy machine does not matter
  for (Token token = 0; token < tokens; ++token) process.observe(position.p, &position.q, token % 2);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / tokens;
  std::printf("%d tokens in the row: %.1f ms\n", vocabulary, 1e3 * seconds);
  EXPECT_LT(seconds, 0.2);
}

/// Moves less than `slack` of total variation from tokens of high probability to others.
std::vector<std::uint64_t> nudged(std::vector<std::uint64_t> p, double slack) {
  const auto dear = std::max_element(p.begin(), p.end());
  const auto moved = std::min(static_cast<std::uint64_t>(slack * 0x1p52), *dear / 2);
  *dear -= moved;
  *std::min_element(p.begin(), p.end()) += moved;
  return p;
}

TEST(EProcess, SlackAllowsOnlyDeviationsUpToIt) {
  for (const double slack : {0.0, 0.02}) {
    Settings settings = small;
    settings.slack = slack;
    const World world(settings, 200);
    std::vector<std::vector<std::uint64_t>> noisy;
    std::vector<std::vector<std::uint64_t>> wrong;
    for (std::size_t i = 0; i < world.size(); ++i) {
      noisy.push_back(nudged(World::table_of(world.position(i).p, 12), 0.02));
      wrong.push_back(World::table_of(world.position(i).q, 12));
    }
    PhiloxSource random(7);
    EProcess right(settings);
    EProcess bad(settings);
    for (int n = 0; n < 20000; ++n) {
      const auto seen = world.step(random, 0, n, &noisy);
      right.observe(world.stakes(seen.position), world.stakes(seen.position).place_of(seen.token));
      const auto other = world.step(random, 1, n, &wrong);
      bad.observe(world.stakes(other.position), world.stakes(other.position).place_of(other.token));
    }
    EXPECT_EQ(right.alarm(), slack == 0) << "without slack the noise is found, with slack it must not be";
    EXPECT_TRUE(bad.alarm());
  }
}

/// Returns a distribution as integers for sample_index.
std::vector<std::uint64_t> in_integers(const std::vector<double>& r) {
  std::vector<std::uint64_t> weights;
  for (const double value : r) weights.push_back(static_cast<std::uint64_t>(value * 0x1p52));
  return weights;
}

TEST(EProcess, FindsAModeledFaultByThePromisedToken) {
  const World world(small, 200);
  PhiloxSource random(11);
  int promises = 0;
  for (const FaultModel& model : fault_models()) {
    std::vector<std::vector<std::uint64_t>> wrong;
    std::vector<double> squares;  // of the total variation from p, by position
    for (std::size_t i = 0; i < world.size(); ++i) {
      const PositionDistributions models = make_distributions(world.position(i), small.vocabulary);
      std::vector<double> r(models.tokens.size());
      model.distribution(models, r);
      double distance = 0;
      for (std::size_t k = 0; k < r.size(); ++k) distance += std::abs(r[k] - models.p[k]) / 2;
      squares.push_back(distance * distance);
      wrong.push_back(in_integers(r));
    }
    for (int text = 0; text < 10; ++text) {
      EProcess process(small);
      double sum = 0;
      bool promised = false;
      for (int n = 0; n < 20000 && !promised; ++n) {
        const auto [position, token] = world.step(random, text, n, &wrong);
        process.observe(world.stakes(position), world.stakes(position).place_of(token));
        sum += squares[position];
        const double smallest = process.smallest_deviation();
        promised = smallest * smallest <= sum / (n + 1);
      }
      EXPECT_TRUE(process.alarm() || !promised) << model.name << ", text " << text;
      promises += promised;
    }
  }
  EXPECT_GT(promises, 100) << "of 180";
}

TEST(EProcess, ATemperatureThatIsOffByATwentiethIsFoundAndNamed) {
  const World world(small, 200);
  for (const double temperature : {0.95, 1.05}) {
    std::vector<std::vector<std::uint64_t>> wrong;
    for (std::size_t i = 0; i < world.size(); ++i) {
      const PositionDistributions at = make_distributions(world.position(i), small.vocabulary);
      std::vector<double> r;
      for (const double p : at.p) r.push_back(p > 0 ? exp64(log64(p) / temperature) : 0);
      const double sum = std::accumulate(r.begin(), r.end(), 0.0);
      for (double& value : r) value /= sum;
      wrong.push_back(in_integers(r));
    }
    PhiloxSource random(5);
    EProcess process(small);
    while (process.tokens() < 200000 && !process.alarm()) {
      const auto [position, token] = world.step(random, 0, static_cast<int>(process.tokens()), &wrong);
      process.observe(world.stakes(position), world.stakes(position).place_of(token));
    }
    EXPECT_TRUE(process.alarm()) << temperature;
    EXPECT_THAT(process.suspect(), HasSubstr(temperature < 1 ? "colder" : "hotter"));
    fmt::print("temperature {}: alarm after {} tokens\n", temperature, process.tokens());
  }
}

// The table of faults.

using Fault = std::function<std::vector<double>(const World&, std::size_t, int vocabulary)>;

/// The fault models, weaker variants of one, and faults that no model names.
std::vector<std::pair<std::string, Fault>> faults() {
  std::vector<std::pair<std::string, Fault>> list;
  for (const FaultModel& model : fault_models()) {
    list.emplace_back(model.name, [&model](const World& world, std::size_t index, int vocabulary) {
      const PositionDistributions models = make_distributions(world.position(index), vocabulary);
      std::vector<double> r(models.tokens.size());
      model.distribution(models, r);
      return r;
    });
  }
  const auto lenient = [](double factor) {
    return [factor](const World& world, std::size_t index, int vocabulary) {
      const PositionDistributions l = make_distributions(world.position(index), vocabulary);
      double refused = 0;
      double sum = 0;
      std::vector<double> r;
      for (std::size_t i = 0; i < l.p.size(); ++i) {
        r.push_back(std::min(l.q[i], factor * l.p[i]));
        refused += l.q[i] - r[i];
        sum += std::max(l.p[i] - l.q[i], 0.0);
      }
      for (std::size_t i = 0; i < l.p.size(); ++i) r[i] += refused / sum * std::max(l.p[i] - l.q[i], 0.0);
      return r;
    };
  };
  list.emplace_back("lenient by 1.1", lenient(1.1));
  list.emplace_back("lenient by 1.03", lenient(1.03));
  const auto mixed = [](double part, const std::function<double(const PositionDistributions&, std::size_t)>& other) {
    return [part, other](const World& world, std::size_t index, int vocabulary) {
      const PositionDistributions l = make_distributions(world.position(index), vocabulary);
      std::vector<double> r;
      double sum = 0;
      for (std::size_t i = 0; i < l.p.size(); ++i) {
        r.push_back(l.p[i] * ((1 - part) + part * other(l, i)));
        sum += r[i];
      }
      for (double& value : r) value /= sum;
      return r;
    };
  };
  list.emplace_back("even ids preferred",
                    mixed(0.2, [](const PositionDistributions&, std::size_t i) { return i % 2 ? 0. : 2.; }));
  list.emplace_back("high ids missing", mixed(1, [](const PositionDistributions& l, std::size_t i) {
                      return i + 4 < l.p.size() ? 1. : 0.;
                    }));
  list.emplace_back("neighbor's logit", [](const World& world, std::size_t index, int vocabulary) {
    const PositionDistributions l = make_distributions(world.position(index), vocabulary);
    std::vector<double> r;
    double sum = 0;
    for (std::size_t i = 0; i < l.p.size(); ++i) {
      r.push_back(l.p[i] > 0 ? l.p[(i + 1) % l.p.size()] : 0);
      sum += r[i];
    }
    for (double& value : r) value /= sum;
    return r;
  });
  list.emplace_back("row of another text", [](const World& world, std::size_t index, int vocabulary) {
    const PositionDistributions l = make_distributions(world.position(index), vocabulary);
    const PositionDistributions other = make_distributions(world.position((index + 1) % world.size()), vocabulary);
    std::vector<double> r;
    double sum = 0;
    for (std::size_t i = 0; i < l.p.size(); ++i) {
      r.push_back(l.p[i] > 0 ? other.p[i] : 0);
      sum += r[i];
    }
    for (double& value : r) value /= sum;
    return r;
  });
  return list;
}

/// The tokens until an alarm, of many texts, and the suspected fault.
class Needed {
 public:
  void add(long count, bool alarm, const std::string& suspect) {
    counts_.push_back(alarm ? static_cast<double>(count) : never);
    ++suspects_[suspect];
  }
  std::string median() { return number_of(*sorted(counts_.size() / 2)); }
  std::string max() { return number_of(*sorted(counts_.size() - 1)); }
  std::string looks_like() const {
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    return std::max_element(suspects_.begin(), suspects_.end(), fewer)->first;
  }

 private:
  static constexpr double never = 1e9;
  static std::string number_of(double count) { return count == never ? "never" : fmt::format("{:.0f}", count); }
  std::vector<double>::iterator sorted(std::size_t place) {
    std::sort(counts_.begin(), counts_.end());
    return counts_.begin() + static_cast<std::ptrdiff_t>(place);
  }

  std::vector<double> counts_;
  std::map<std::string, int> suspects_;
};

constexpr int texts = 9;

std::string faults_of_text() {
  struct TextFault {
    const char* name;
    Rounds::Say say;
  };
  const auto repeats = [](std::size_t back) {
    return [back](Token drawn, auto, const std::vector<Token>& before) {
      return before.size() >= back && before.size() % 3 == 0 ? before[before.size() - back] : drawn;
    };
  };
  const TextFault list[] = {
      {"stale proposal",
       [](Token drawn, std::optional<Token> rejected, const auto&) { return rejected.value_or(drawn); }},
      {"stale every other time",
       [](Token drawn, std::optional<Token> rejected, const auto& before) {
         return before.size() % 2 == 0 ? rejected.value_or(drawn) : drawn;
       }},
      {"every third is the last", repeats(1)},
      {"every third, 3 back", repeats(3)},
      {"every third, 9 back", repeats(9)},
  };
  const World world(small, 200);
  std::string found = fmt::format("\n{:<26}{:>9}{:>9}  looks like\n", "text, vocabulary 12", "median", "most");
  for (const TextFault& fault : list) {
    Needed needed;
    for (int text = 0; text < texts; ++text) {
      EProcess process(small);
      Rounds(world, text).feed(process, 20000, fault.say);
      needed.add(process.tokens(), process.alarm(), process.suspect());
    }
    found += fmt::format("{:<26}{:>9}{:>9}  {}\n", fault.name, needed.median(), needed.max(), needed.looks_like());
  }
  return found;
}

/// Coins in place of tokens.
std::string faults_of_coins() {
  std::string found = fmt::format("\n{:<26}{:>9}{:>9}  looks like\n", "coins", "median", "most");
  for (const CoinFault& fault : coin_faults()) {
    Needed needed;
    for (int text = 0; text < texts; ++text) {
      CoinEvidence evidence(1e-9);
      Bits bits(static_cast<std::uint64_t>(text));
      std::vector<double> before;
      while (before.size() < 20000 && !evidence.alarm()) {
        before.push_back(fault.coin(bits, before));
        evidence.observe(Stream::accept, before.back());
      }
      needed.add(evidence.coins(), evidence.alarm(), evidence.suspect());
    }
    found += fmt::format("{:<26}{:>9}{:>9}  {}\n", fault.name, needed.median(), needed.max(), needed.looks_like());
  }
  return found;
}

void expect_no_alarm_of_right_texts(int texts, int tokens) {
  const auto alarms = false_alarms({.vocabulary = 12}, texts, tokens, fault_models(), [](Token) {}, {0.05, 1e-3, 1e-9});
  fmt::print("alarms among {} right texts: {} at 0.05, {} at 1e-3, {} at 1e-9\n", texts, alarms.at(0.05),
             alarms.at(1e-3), alarms.at(1e-9));
  EXPECT_EQ(alarms.at(1e-9), 0);
  EXPECT_LE(alarms.at(1e-3), texts / 200);
  EXPECT_LE(alarms.at(0.05), texts / 20);
  EXPECT_GE(alarms.at(0.05), texts / 200) << "bets that never win would not win against a fault either";
}
TEST(EProcessSlow, TwoHundredRightTextsOf100000TokensRaiseNoAlarm) { expect_no_alarm_of_right_texts(200, 100000); }
TEST(EProcessSweep, AThousandRightTextsOf100000TokensRaiseNoAlarm) { expect_no_alarm_of_right_texts(1000, 100000); }

TEST(EProcessSlow, TheTokensUntilAnAlarmMatchTheSnapshot) {
  constexpr int tokens_max = 200000;
  const Settings settings = {.vocabulary = 64};
  const World world(settings, 64);
  std::string found =
      "# Tokens until an alarm at 1e-9, median and most of 9 texts; vocabulary 64, 64 positions in random order.\n"
      "# Tokens with p = 0 are left out: each would be proof. Ideal: ln(1e9) / KL, when the fault is known.\n"
      "# The second pair: the same texts with rows that were written as float32.\n";
  found += fmt::format("{:<26}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}  looks like\n", "fault", "TV", "ideal", "median", "most",
                       "float32", "most");
  for (const auto& [name, fault] : faults()) {
    double distance = 0;
    double divergence = 0;
    std::vector<std::vector<std::uint64_t>> models;
    for (std::size_t i = 0; i < world.size(); ++i) {
      const PositionDistributions l = make_distributions(world.position(i), settings.vocabulary);
      std::vector<double> r = fault(world, i, settings.vocabulary);
      double possible = 0;
      for (std::size_t k = 0; k < r.size(); ++k) possible += r[k] = l.p[k] > 0 ? r[k] : 0;
      for (std::size_t k = 0; k < r.size(); ++k) {
        if (possible > 0) r[k] /= possible;
        distance += std::abs(r[k] - l.p[k]) / 2 / static_cast<double>(world.size());
        if (r[k] > 0) divergence += r[k] * log64(r[k] / l.p[k]) / static_cast<double>(world.size());
      }
      models.push_back(in_integers(r));
    }
    PhiloxSource random(5);
    Needed by_integers;
    Needed by_reals;
    for (int text = 0; text < texts; ++text) {
      EProcess integers(settings);
      EProcess reals(settings);
      for (int n = 0; n < tokens_max && !(integers.alarm() && reals.alarm()); ++n) {
        const auto [position, token] = world.step(random, text, n, &models);
        const auto watch = [said = token](EProcess& process, const Stakes& stakes) {
          if (!process.alarm()) process.observe(stakes, stakes.place_of(said));
        };
        watch(integers, world.stakes(position));
        watch(reals, world.stakes_of_reals(position));
      }
      by_integers.add(integers.tokens(), integers.alarm(), integers.suspect());
      by_reals.add(reals.tokens(), reals.alarm(), reals.suspect());
    }
    found += fmt::format("{:<26}{:>8.4f}{:>9.0f}{:>9}{:>9}{:>9}{:>9}  {}\n", name, distance, log64(1e9) / divergence,
                         by_integers.median(), by_integers.max(), by_reals.median(), by_reals.max(),
                         by_integers.looks_like());
  }
  found += faults_of_text();
  found += faults_of_coins();
  const std::string path = DRAFTPROOF_SOURCE_DIR "/fixtures/snapshots/e_process.txt";
  fmt::print("{}", found);
  if (const char* accept = std::getenv("DRAFTPROOF_ACCEPT"); accept != nullptr && std::string_view(accept) == "1") {
    std::ofstream(path) << found;
  }
  std::stringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(found, expected.str()) << "if that is meant, run this test with DRAFTPROOF_ACCEPT=1 and commit " << path;
}

}  // namespace
}  // namespace draftproof::e_process_test
