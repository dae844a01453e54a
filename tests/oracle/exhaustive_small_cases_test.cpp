// SPDX-License-Identifier: MIT
// Production code on every small case; and parts that are wrong in one place each, which must be found.
#include "oracle/exact/exhaustive_small_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tests/oracle/told.h"

namespace draftproof::exhaustive_small_cases_test {
namespace {

using testing::HasSubstr;

TEST(ExhaustiveSmallCases, ProductionCodeIsExactInEverySmallCase) {
  const Finding finding = check_exhaustive_small_cases(production());
  EXPECT_EQ(finding.outcome, Outcome::pass) << finding.message;
  // Three rules; pairs of all distributions with V <= 3, W <= 6 and V = 4, W <= 5, and of 18 adversarial ones; and
  // those of two and three tokens again, with a sibling of the draft token.
  const long pairs = 3 * (6 + 139 + 1595 + 4877 + 18 * 18 + 139 + 1595);
  EXPECT_THAT(finding.message, testing::StartsWith(std::to_string(pairs) + " pairs of p and q over "));
  EXPECT_THAT(finding.message, HasSubstr(" 65280 words"));
}

/// Returns production code without rules: faults of the other parts are found without them, and faster.
Primitives without_rules() {
  Primitives primitives = production();
  primitives.rules = {};
  return primitives;
}

/// Expects a failure with `words` in its message when `wrong` is run.
void expect_found(const Primitives& wrong, const char* words) {
  const Finding finding = check_exhaustive_small_cases(wrong);
  EXPECT_EQ(finding.outcome, Outcome::fail) << words;
  EXPECT_THAT(told(finding), HasSubstr(words));
  expect_whole(finding);
}

TEST(ExhaustiveSmallCases, FindsIntegersThatAreNotUniform) {
  Primitives wrong = without_rules();
  wrong.below = [](std::uint8_t bound, std::span<const std::uint8_t> words, int& used) {  // no word is retried
    used = 1;
    return static_cast<std::uint8_t>(words[0] * bound >> 8);
  };
  expect_found(wrong, "uniform integers below 3 ");
  // The last value is never returned.
  wrong.below = [](std::uint8_t bound, std::span<const std::uint8_t> words, int& used) {
    return static_cast<std::uint8_t>(small_uniform(bound, words, used) % std::max(1, bound - 1));
  };
  expect_found(wrong, "uniform integers below 2 ");
}

template <class Change>
Distribution changed(std::span<const float> logits, Sampling sampling, const History& history, Change change) {
  change(sampling);
  return compute_distribution(logits, sampling, history);
}

TEST(ExhaustiveSmallCases, FindsAWrongConversionOfLogits) {
  Primitives wrong = without_rules();
  wrong.read = [](std::span<const float> logits, const Sampling& sampling, const History& history) {  // (R14)
    std::vector<float> padded(logits.begin(), logits.end());
    padded.push_back(0);
    return compute_distribution(padded, sampling, history);
  };
  expect_found(wrong, "the logits are (-inf -inf -inf)");
  wrong.read = [](std::span<const float> logits, const Sampling& sampling, const History& history) {  // (N13, R10)
    std::vector<float> finite(logits.begin(), logits.end());
    for (float& z : finite) z = z < std::numeric_limits<float>::infinity() ? z : 0;
    return compute_distribution(finite, sampling, history);
  };
  expect_found(wrong, "expected: the logits give an error");
  wrong.read = [](std::span<const float> logits, const Sampling& sampling, const History& history) {  // (A26)
    return changed(logits, sampling, history, [](Sampling& s) { s.temperature = s.greedy() ? 1 : s.temperature; });
  };
  expect_found(wrong, "temperature 0.0");
  wrong.read = [](std::span<const float> logits, const Sampling& sampling, const History& history) {
    return changed(logits, sampling, history, [](Sampling& s) { s.top_k += s.top_k > 0; });
  };
  expect_found(wrong, "top-k 1");
  wrong.read = [](std::span<const float> logits, const Sampling& sampling, const History& history) {
    return changed(logits, sampling, history, [](Sampling& s) { s.min_p = 0; });
  };
  expect_found(wrong, "min-p 0.5");
  wrong.read = [](std::span<const float> logits, const Sampling& sampling, const History& history) {  // ties: the last
    std::vector<float> reversed(logits.rbegin(), logits.rend());
    const Distribution read = compute_distribution(reversed, sampling, history);
    std::vector<std::uint64_t> weights;
    for (std::size_t i = logits.size(); i-- > 0;) weights.push_back(read.weight(static_cast<Token>(i)));
    return Distribution::exact({}, weights);
  };
  expect_found(wrong, "expected: the logits give (");
}

/// Accepts while p of the draft token is at least q, else rejects: draws nothing.
Verdict never_asks(const Proposal& proposal, TargetRows& rows, int, int, RandomSource&) {
  const Distribution& p = rows.row(0);
  if (p.weight(proposal.tokens[0]) >= proposal.drawn_from[0].weight(proposal.tokens[0])) {
    return {1, rows.row(1).tokens().front()};
  }
  return {0, p.tokens().front()};
}

/// Ignores the row after the draft token.
Verdict same_row_again(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const Verdict verdict = matching.judge(proposal, rows, sequence, position, random);
  if (verdict.accepted == 0) return verdict;
  const Distribution& p = rows.row(0);
  return {1, p.tokens()[random.sample_index({sequence, position + 1, Purpose::target}, p.weights())]};
}

TEST(ExhaustiveSmallCases, FindsWrongRulesAndNamesThePair) {
  const Rule deaf = {"deaf", "", Purpose::draft, never_asks};
  const Rule blind = {"blind", "", Purpose::target, same_row_again};
  Primitives wrong = production();
  const Rule* rules[] = {&deaf};
  wrong.rules = rules;
  expect_found(wrong, "expected: deaf gives every token");
  rules[0] = &blind;
  expect_found(wrong, "does not have the probability that the row after it gives it");
}

// Each part is called many thousand times; here it is wrong once.
long calls = 0;
long wrong_call = -1;
bool is_wrong_now() { return calls++ == wrong_call; }

Verdict once_another_token(const Proposal& proposal, TargetRows& rows, int sequence, int position,
                           RandomSource& random) {
  Verdict verdict = rejection.judge(proposal, rows, sequence, position, random);
  if (is_wrong_now()) ++verdict.next;
  return verdict;
}

TEST(ExhaustiveSmallCases, FindsAPartThatIsWrongInASingleCall) {
  static constexpr Rule rule = {"now and then", "", Purpose::draft, once_another_token};
  static constexpr const Rule* rules[] = {&rule};
  Primitives by_rule = without_rules();
  by_rule.rules = rules;
  Primitives by_row = without_rules();
  by_row.read = [](std::span<const float> logits, const Sampling& sampling, const History& history) {
    const Distribution row = compute_distribution(logits, sampling, history);
    return is_wrong_now() ? Distribution::point(row.is_point() ? row.tokens()[0] + 1 : row.tokens()[0]) : row;
  };
  Primitives by_word = without_rules();
  by_word.below = [](std::uint8_t bound, std::span<const std::uint8_t> words, int& used) {
    const std::uint8_t below = small_uniform(bound, words, used);
    return is_wrong_now() ? static_cast<std::uint8_t>(below + 1) : below;
  };
  for (const Primitives& primitives : {by_rule, by_row, by_word}) {
    calls = 0;
    wrong_call = -1;
    ASSERT_EQ(check_exhaustive_small_cases(primitives).outcome, Outcome::pass);
    const long all = calls;
    ASSERT_GT(all, 10000);
    for (const long call : {0L, all / 2, all / 2 + 1, all - 1}) {
      calls = 0;
      wrong_call = call;
      EXPECT_EQ(check_exhaustive_small_cases(primitives).outcome, Outcome::fail) << call << " of " << all;
    }
  }
}

}  // namespace
}  // namespace draftproof::exhaustive_small_cases_test
