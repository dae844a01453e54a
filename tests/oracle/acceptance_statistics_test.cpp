// SPDX-License-Identifier: MIT
#include "oracle/checks/acceptance_statistics.h"

#include <gtest/gtest.h>

#include <numeric>

#include "zoo/zoo_subject.h"

namespace draftproof::acceptance_statistics_test {
namespace {

constexpr std::uint64_t total = Distribution::total;

/// Returns every row of three tokens whose weights are multiples of 1/8.
std::vector<std::vector<std::uint64_t>> eighths() {
  std::vector<std::vector<std::uint64_t>> list;
  for (std::uint64_t a = 0; a <= 8; ++a) {
    for (std::uint64_t b = 0; a + b <= 8; ++b) list.push_back({a, b, 8 - a - b});
  }
  return list;
}

Distribution row_of(const std::vector<std::uint64_t>& parts) {
  std::vector<std::uint64_t> weights;
  for (const std::uint64_t part : parts) weights.push_back(part * (total / 8));
  const std::vector<Token> tokens{0, 1, 2};
  return Distribution::exact(tokens, weights);
}

/// Returns the token that the number `eighth` selects.
int token_at(const std::vector<std::uint64_t>& parts, std::uint64_t eighth) {
  int token = 0;
  while (eighth >= parts[token]) eighth -= parts[token++];
  return token;
}

TEST(Agreement, EqualsTheCountOverEveryNumber) {
  for (const auto& p : eighths()) {
    for (const auto& q : eighths()) {
      std::uint64_t same = 0;
      for (std::uint64_t number = 0; number < 8; ++number) same += token_at(p, number) == token_at(q, number);
      std::uint64_t min = 0;
      for (std::size_t token = 0; token < 3; ++token) min += std::min(p[token], q[token]);
      ASSERT_EQ(agreement(row_of(p), row_of(q)), same * (total / 8));
      ASSERT_EQ(overlap(row_of(p), row_of(q)), min * (total / 8));
      ASSERT_LE(agreement(row_of(p), row_of(q)), overlap(row_of(p), row_of(q)));
    }
  }
}

TEST(Agreement, OfPointsIsAllOrNothing) {
  for (const auto of : {agreement, overlap}) {
    EXPECT_EQ(of(Distribution::point(3), Distribution::point(3)), total);
    EXPECT_EQ(of(Distribution::point(3), Distribution::point(4)), 0U);
    EXPECT_EQ(of(Distribution::point(70), Distribution::point(4)), 0U);
  }
}

TEST(Agreement, CountsTheLastWeight) {
  const std::vector<Token> tokens{0, 1};
  const Distribution half = Distribution::exact(tokens, std::vector<std::uint64_t>{total / 2, total / 2});
  const Distribution less = Distribution::exact(tokens, std::vector<std::uint64_t>{total / 2 - 1, total / 2 + 1});
  EXPECT_EQ(agreement(half, less), total - 1);
  EXPECT_EQ(overlap(half, less), total - 1);
}

TEST(JudgedByDepth, LeavesOutChainsWhichBlockDecidesTogetherAndNotTrees) {
  const auto judged = [](const char* draft) {
    zoo::ZooSubject subject({.vocabulary = 6, .levels = 3, .seed = 5});
    Request request;
    request.prompt = {1, 2, 3};
    request.sampling.temperature = 1;
    request.max_new_tokens = 100;
    Variation variation;
    variation.draft = draft;
    variation.draft_max = 5;
    variation.rule = &block;
    Trial trial(subject, request, 3, {variation});
    long sum = 0;
    for (const Judged& depth : judged_by_depth(trial, trial.runs[0])) sum += depth.judged;
    return sum;
  };
  EXPECT_EQ(judged("perturbed"), 0);
  EXPECT_GT(judged("scripted:~&*+&*/-<*<**/+&*~&*-"), 0);
}

TEST(JudgedByDepth, CountsTheRoundsAndExpectsTheAcceptedWhereNothingIsRandom) {
  for (const Rule* rule : {&matching, &rejection}) {
    for (const float temperature : {0.0F, 1.0F}) {
      zoo::ZooSubject subject({.vocabulary = 6, .levels = 3, .seed = 5});
      Request request;
      request.prompt = {1, 2, 3};
      request.sampling.temperature = temperature;
      request.max_new_tokens = 400;
      Variation variation;
      variation.draft = "perturbed";
      variation.draft_max = 4;
      variation.rule = rule;
      Trial trial(subject, request, 3, {variation});
      const auto& run = trial.runs[0];
      const std::vector<Judged> depths = judged_by_depth(trial, run);
      ASSERT_EQ(depths.size(), 4U);
      long judged = 0;
      long accepted = 0;
      double expected = 0;
      for (const Round& round : run.trace.rounds) {
        judged += std::min(round.proposal.size(), round.verdict.accepted + 1);
        accepted += round.verdict.accepted;
      }
      for (std::size_t i = 0; i < depths.size(); ++i) {
        judged -= depths[i].judged;
        accepted -= depths[i].accepted;
        if (i > 0) {
          EXPECT_LE(depths[i].judged, depths[i - 1].accepted);
        }
        if (temperature == 0) {
          EXPECT_EQ(depths[i].expected, static_cast<double>(depths[i].accepted));
        }
        expected += depths[i].expected - static_cast<double>(depths[i].accepted);
      }
      EXPECT_EQ(judged, 0);
      EXPECT_EQ(accepted, 0);
      EXPECT_LT(std::abs(expected), 40) << "four standard deviations of at most 400 draft tokens";

      const std::vector<long> rounds = rounds_by_accepted(run.trace);
      EXPECT_EQ(std::accumulate(rounds.begin(), rounds.end(), 0L), run.trace.statistics.iterations);
    }
  }
}

}  // namespace
}  // namespace draftproof::acceptance_statistics_test
