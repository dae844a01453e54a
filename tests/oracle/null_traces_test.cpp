// SPDX-License-Identifier: MIT
// A right engine of float32 with a draft and rejection, and all evidence over what its trace would state: tokens, draft
// tokens, acceptance, coins. Injected faults show that the same traces can raise alarms. Slow: 1000 traces of 10 000
// tokens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <thread>

#include "oracle/sequential/acceptance_evidence.h"
#include "oracle/sequential/coin_evidence.h"
#include "oracle/sequential/e_process.h"
#include "oracle/sequential/rounded_distribution.h"
#include "tests/oracle/float_engine.h"

namespace draftproof::null_traces_test {
namespace {

constexpr int vocabulary = 16;
constexpr double unit = 0x1p-23;

/// Rows that are repeated, p and q of one position, and their distributions to bet on.
struct Place {
  std::vector<float> p, q;
  RoundedDistribution of_p, of_q;
  EProcess::Stakes on_q;
};

std::vector<Place> places() {
  std::vector<Place> list;
  Bits bits(7);
  for (int index = 0; index < 64; ++index) {
    std::vector<float> p;
    std::vector<float> q;
    for (int token = 0; token < vocabulary; ++token) {
      p.push_back(static_cast<float>((0.5 + index % 4) * bell(bits)));
      q.push_back(p.back() + static_cast<float>(0.7 * bell(bits)));
    }
    const StatedRow stated_p = stated(softmax(p));
    const StatedRow stated_q = stated(softmax(q));
    const RoundedDistribution of_p = rounded_distribution(stated_p.tokens, stated_p.weights, unit);
    const RoundedDistribution of_q = rounded_distribution(stated_q.tokens, stated_q.weights, unit);
    list.push_back({softmax(p), softmax(q), of_p, of_q, {{vocabulary, 1e-9, of_q.slack}, of_q.distribution, nullptr}});
  }
  return list;
}

/// The evidence of one engine's trace, and each number that it draws.
struct Evidence {
  EProcess tokens, drafts;
  AcceptanceEvidence acceptance;
  CoinEvidence coins;

  explicit Evidence(double alpha)
      : tokens({vocabulary, alpha, 0}), drafts({vocabulary, alpha, 0}), acceptance(alpha), coins(alpha) {}

  std::array<double, 4> e_values() const {
    return {tokens.e_value(), drafts.e_value(), acceptance.e_value(), coins.e_value()};
  }
};

enum class Fault { none, coins_zero, one_coin_a_round, coins_again, stale, best_drafts, square_root };

Evidence trace_of(const std::vector<Place>& world, std::uint64_t seed, int tokens, Fault fault = Fault::none) {
  Evidence evidence(1e-9);
  Bits bits(seed);
  std::vector<double> thrown;
  double of_round = 0;
  const auto coin = [&](Stream stream) {
    double next = coin_of_24_bits(bits);
    if (fault == Fault::coins_zero && stream == Stream::accept) next = 0;
    if (fault == Fault::one_coin_a_round && stream == Stream::accept) next = of_round;
    if (fault == Fault::coins_again && thrown.size() >= 300) next = thrown[thrown.size() - 300];
    thrown.push_back(next);
    evidence.coins.observe(stream, next);
    return next;
  };

  std::vector<Token> text;
  std::vector<Token> dropped;
  while (text.size() < static_cast<std::size_t>(tokens)) {
    // A round: draft tokens, one after another, and their positions.
    std::array<const Place*, 4> at;
    for (const Place*& place : at) place = &world[bits() % world.size()];
    std::vector<Token> draft_tokens;
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      const double drawn = coin(Stream::draft);
      const auto best = std::max_element(at[i]->q.begin(), at[i]->q.end()) - at[i]->q.begin();
      draft_tokens.push_back(fault == Fault::best_drafts ? static_cast<Token>(best) : walk(at[i]->q, drawn));
      evidence.drafts.observe(at[i]->on_q, at[i]->on_q.place_of(draft_tokens.back()));
    }

    const std::vector<Token> known = std::exchange(dropped, {});
    const auto say = [&](const Place& place, bool drafted, Token token) {
      const double slack = place.of_p.slack + (drafted ? place.of_q.slack + 4 * unit : 0);
      evidence.tokens.observe(place.of_p.distribution, drafted ? &place.of_q.distribution : nullptr, token,
                              {text, known, slack});
      text.push_back(token);
    };
    of_round = coin_of_24_bits(bits);
    std::size_t i = 0;
    for (; i < draft_tokens.size(); ++i) {
      const auto draft_token = static_cast<std::size_t>(draft_tokens[i]);
      const float ratio = std::min(1.0F, at[i]->p[draft_token] / at[i]->q[draft_token]);
      const bool accepted = coin(Stream::accept) < (fault == Fault::square_root ? std::sqrt(ratio) : ratio);
      evidence.acceptance.observe(ratio, accepted, 4 * unit);
      if (!accepted) break;
      say(*at[i], true, draft_tokens[i]);
    }
    std::vector<float> row = at[i]->p;
    if (i < draft_tokens.size()) {
      float sum = 0;
      for (std::size_t token = 0; token < row.size(); ++token) {
        sum += row[token] = std::max(row[token] - at[i]->q[token], 0.0F);
      }
      for (float& p : row) p /= sum;
      dropped.assign(draft_tokens.begin() + static_cast<std::ptrdiff_t>(i), draft_tokens.end());
    }
    const Token drawn = walk(row, coin(Stream::target));
    say(*at[i], i < draft_tokens.size(), fault == Fault::stale && !known.empty() && i == 3 ? known[0] : drawn);
  }
  return evidence;
}

/// Returns how many of `traces` raise an alarm, by evidence and in all, at 1 in 20 and at 1e-9.
struct Alarms {
  std::array<int, 4> loose{}, strict{};
  int any_loose = 0;

  void add(const Evidence& evidence) {
    const auto e_values = evidence.e_values();
    double shared = 0;  // with a quarter of alpha each
    for (std::size_t i = 0; i < e_values.size(); ++i) {
      loose[i] += e_values[i] >= 20;
      strict[i] += e_values[i] >= 1e9;
      shared = std::max(shared, e_values[i] / 4);
    }
    any_loose += shared >= 20;
  }
};

TEST(NullTraces, RaiseNoAlarm) {
  const std::vector<Place> world = places();
  Alarms alarms;
  for (std::uint64_t seed = 0; seed < 200; ++seed) alarms.add(trace_of(world, seed, 200));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(alarms.strict[i], 0) << i;
    EXPECT_LE(alarms.loose[i], 10) << i << ", of 200 at 0.05";
  }
  EXPECT_LE(alarms.any_loose, 10);
}

TEST(NullTraces, WithAFaultRaiseTheAlarmOfTheEvidenceForIt) {
  const std::vector<Place> world = places();
  const std::map<Fault, std::size_t> seen_by = {{Fault::coins_zero, 3},  {Fault::coins_again, 3},
                                                {Fault::stale, 0},       {Fault::best_drafts, 1},
                                                {Fault::square_root, 2}, {Fault::one_coin_a_round, 3}};
  for (const auto& [fault, index] : seen_by) {
    EXPECT_GE(trace_of(world, 3, 4000, fault).e_values()[index], 1e9) << static_cast<int>(fault);
  }
}

/// `loose_max`: of so many traces that may alarm at 0.05.
void expect_few_alarms_of_ten_thousand_tokens(std::uint64_t traces, int loose_max) {
  const std::vector<Place> world = places();
  std::array<Alarms, 2> halves;
  std::vector<std::thread> threads;
  for (std::size_t half = 0; half < 2; ++half) {
    threads.emplace_back([&, half] {
      for (std::uint64_t seed = half; seed < traces; seed += 2) halves[half].add(trace_of(world, seed, 10000));
    });
  }
  for (std::thread& thread : threads) thread.join();

  const char* const names[] = {"tokens", "draft tokens", "acceptance", "coins"};
  for (std::size_t i = 0; i < 4; ++i) {
    const int loose = halves[0].loose[i] + halves[1].loose[i];
    fmt::print("{}: {} of {} alarm at 0.05\n", names[i], loose, traces);
    EXPECT_EQ(halves[0].strict[i] + halves[1].strict[i], 0) << names[i];
    EXPECT_LE(loose, loose_max) << names[i];
  }
  const int any = halves[0].any_loose + halves[1].any_loose;
  fmt::print("any of them: {} of {} alarm at 0.05\n", any, traces);
  EXPECT_LE(any, loose_max);
}

TEST(NullTracesSlow, OfTenThousandTokensRaiseAlarmsNoMoreOftenThanStated) {
  expect_few_alarms_of_ten_thousand_tokens(200, 20);  // 10 are expected at most, and 21 happen with probability 0.0012
}
TEST(NullTracesSweep, OfTenThousandTokensRaiseAlarmsNoMoreOftenThanStated) {
  expect_few_alarms_of_ten_thousand_tokens(1000, 50);
}

}  // namespace
}  // namespace draftproof::null_traces_test
