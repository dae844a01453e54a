// SPDX-License-Identifier: MIT
// The checks on right traces that were changed in one place each: the check of that place must fail and name it. And
// passes that prove nothing.
#include "oracle/checks/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/oracle/told.h"
#include "zoo/zoo_subject.h"

namespace draftproof::check_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Played = Run;  // inside a test, Run is one of googletest's own functions

Request asked(float temperature, int max_new_tokens = 12) {
  Request request;
  request.prompt = {1, 2, 3};
  request.sampling.temperature = temperature;
  request.max_new_tokens = max_new_tokens;
  return request;
}

Variation with(const char* draft, int draft_max, const Rule& rule) {
  Variation variation;
  variation.draft = draft;
  variation.draft_max = draft_max;
  variation.rule = &rule;
  return variation;
}

class Checks : public testing::Test {
 protected:
  Trial trial_of(const Request& request, const std::vector<Variation>& variations) {
    return Trial(subject_, request, 3, variations);
  }
  /// Returns the first round of the run in which a draft token was rejected or, with `all_accepted`, several were all
  /// accepted.
  static Round& round_of(Played& run, bool all_accepted) {
    for (Round& round : run.trace.rounds) {
      if (round.proposal.size() > 1 && (round.verdict.accepted == round.proposal.size()) == all_accepted) return round;
    }
    ADD_FAILURE() << "no such round";
    return run.trace.rounds.front();
  }
  /// Expects the check to pass, then to fail after `tamper` with a message that contains `words`.
  template <class Tamper>
  void catches(const Check& check, const Variation& variation, Tamper tamper, const char* words) {
    Trial trial = trial_of(asked(1), {with("none", 0, *variation.rule), variation});
    ASSERT_EQ(check.examine(trial).outcome, Outcome::pass) << check.examine(trial).message;
    tamper(trial.runs.back());
    const Finding finding = check.examine(trial);
    EXPECT_EQ(finding.outcome, Outcome::fail) << words;
    EXPECT_THAT(told(finding), HasSubstr(words));
    EXPECT_THAT(finding.message, StartsWith("draft " + variation.draft)) << "the variation is named";
    expect_whole(finding);
  }

  zoo::ZooSubject subject_{{.vocabulary = 4, .levels = 3, .seed = 5}};
};

TEST_F(Checks, TokensEqualNamesThePlaceAndBothTokens) {
  catches(
      tokens_equal, with("perturbed", 3, matching),
      [](Played& run) { run.trace.output[5] = (run.trace.output[5] + 1) % 4; },
      "position 8: expected: plain decoding emits token");
  catches(
      tokens_equal, with("perturbed", 3, matching), [](Played& run) { run.trace.output.pop_back(); },
      "output 11 is the end");
  catches(
      tokens_equal, with("perturbed", 3, matching), [](Played& run) { run.trace.finish = Finish::stop; },
      "expected: plain decoding is finished by length; observed: finished by stop");
}

TEST_F(Checks, LogitsEqualNamesPositionAndRow) {
  catches(
      logits_equal, with("perturbed", 3, rejection), [](Played& run) { run.trace.rounds[0].logits[0].low ^= 1; },
      "round 0, position 3: expected: the row that decides this token has logits");
  catches(
      logits_equal, with("perfect", 3, matching), [](Played& run) { run.trace.rounds[0].logits.pop_back(); },
      "row 3 of the verification has no digest");
}

TEST_F(Checks, AcceptanceCorrectComparesEveryPartOfARoundWithTheKeys) {
  const Variation rejecting = with("perturbed", 3, rejection);
  const auto check = [&](auto tamper, const char* words) { catches(acceptance_correct, rejecting, tamper, words); };
  check([](Played& run) { ++run.trace.rounds[0].position; }, "the text ends in 3");
  check([](Played& run) { run.trace.rounds[0].anchor = 0; }, "round 0, position 3");
  check([](Played& run) { round_of(run, false).verdict.accepted += 1; }, "draft tokens were accepted");
  check([](Played& run) { round_of(run, false).targets[0].high ^= 1; }, "row 0 was verified with another p");
  check([](Played& run) { round_of(run, true).targets.back().high ^= 1; }, "was verified with another p");
  check([](Played& run) { round_of(run, true).targets.pop_back(); }, "was verified with another p");
  check([](Played& run) { round_of(run, false).emitted.back() ^= 1; }, "p and the keys give");
  check([](Played& run) { round_of(run, true).emitted[0] ^= 1; }, "are not the accepted draft tokens: [");
  check([](Played& run) { round_of(run, true).emitted.resize(1); }, "accepted draft tokens were not emitted");
  check([](Played& run) { round_of(run, true).emitted.push_back(0); }, "p and the keys give");
  check([](Played& run) { round_of(run, true).proposal.drawn_from.pop_back(); }, "without the q");
  check([](Played& run) { round_of(run, true).proposal.drawn_from[0] = {}; }, "not drawn from its stated q");
  check([](Played& run) { round_of(run, true).proposal.tokens[0] = 4; }, "not drawn from its stated q");
}

TEST_F(Checks, CacheRollbackNamesTheRound) {
  catches(
      cache_rollback, with("always-reject", 2, matching), [](Played& run) { run.trace.rounds[1].cache.low ^= 1; },
      "round 1, position 4: expected: after the round the cache equals that of a run that read only the accepted "
      "text");
  catches(
      cache_rollback, with("always-reject", 2, matching), [](Played& run) { ++run.trace.rounds[0].cache_length; },
      "expected: after the round the cache holds 3 positions; observed: it holds 4 positions");
}

TEST_F(Checks, TerminationAndCountersComparesCountsWithTheRounds) {
  const Variation matched = with("perturbed", 3, matching);
  const auto check = [&](auto tamper, const char* words) { catches(termination_and_counters, matched, tamper, words); };
  check([](Played& run) { run.trace.output.push_back(0); },
        "expected: at most 12 tokens; observed: 13 tokens were emitted; the budget is 12 tokens");
  check([](Played& run) { run.trace.finish = Finish::stop; }, "finished by stop before its end");
  check([](Played& run) { --run.trace.final_length; }, "it holds 13 positions");
  check([](Played& run) { ++run.trace.rounds[0].accepted; }, "accepted draft tokens");
  check([](Played& run) { ++run.trace.statistics.drafted; }, "statistics");
  check([](Played& run) { run.trace.rounds[0].emitted[0] ^= 1; }, "disagree");
}

TEST_F(Checks, ConfigInvarianceComparesRoundsOfTheSameKindInAnyOrder) {
  Variation serial = with("perturbed", 3, matching);
  serial.verification = Verification::serial;
  Trial trial = trial_of(asked(1), {with("none", 0, matching), with("perturbed", 3, matching), serial});
  ASSERT_EQ(config_invariance.examine(trial).outcome, Outcome::pass);
  const auto finds = [&](auto change, const char* words) {
    Trial changed = trial;
    change(changed.runs[2].trace.rounds[1]);
    const Finding finding = config_invariance.examine(changed);
    EXPECT_EQ(finding.outcome, Outcome::fail);
    EXPECT_THAT(finding.message, StartsWith("draft perturbed (at most 3), matching, serial, 1 thread, round 1, "));
    EXPECT_THAT(finding.message, HasSubstr(words));
  };
  finds([](Round& round) { round.logits[0].low ^= 1; }, "differs in its rows");
  finds([](Round& round) { round.verdict.next ^= 1; }, "differs in its verdict");
  finds([](Round& round) { round.proposal.tokens[0] ^= 1; }, "differs in its draft tokens");
}

TEST_F(Checks, ConfigInvarianceAllowsAnotherTextWithAnotherDraftUnderRejection) {
  Trial trial = trial_of(
      asked(1), {with("none", 0, rejection), with("perturbed", 2, rejection), with("perturbed", 3, rejection)});
  EXPECT_NE(trial.runs[0].trace.output, trial.runs[1].trace.output)
      << "the samples differ, the distribution does not (N11)";
  Trial pairs = trial_of(asked(1), {with("perturbed", 3, rejection), with("perturbed", 3, rejection)});
  EXPECT_EQ(config_invariance.examine(pairs).outcome, Outcome::pass);
  for (const Check* const check : all_checks()) {
    EXPECT_NE(check->examine(trial).outcome, Outcome::fail) << check->name;
  }
}

TEST_F(Checks, StatisticsMayDifferWhereTheTextDoesNot) {
  Trial trial = trial_of(asked(1), {with("perturbed", 1, matching), with("perturbed", 3, matching),
                                    with("always-reject", 3, matching), with("perfect", 3, matching)});
  EXPECT_NE(trial.runs[0].trace.statistics.drafted, trial.runs[1].trace.statistics.drafted);
  EXPECT_LT(trial.runs[2].trace.statistics.accepted, trial.runs[3].trace.statistics.accepted);
  EXPECT_EQ(trial.runs[3].trace.statistics.mismatches, 0);
  for (const Check* const check : all_checks()) {
    EXPECT_EQ(check->examine(trial).outcome, Outcome::pass) << check->name << ": " << check->examine(trial).message;
  }
}

TEST_F(Checks, APassThatComparedNothingIsVacuous) {
  Trial no_draft_tokens = trial_of(asked(1), {with("none", 0, matching)});
  EXPECT_EQ(acceptance_correct.examine(no_draft_tokens).outcome, Outcome::vacuous);
  EXPECT_EQ(cache_rollback.examine(no_draft_tokens).outcome, Outcome::vacuous);
  EXPECT_EQ(config_invariance.examine(no_draft_tokens).outcome, Outcome::vacuous);
  EXPECT_THAT(cache_rollback.examine(no_draft_tokens).message, HasSubstr("nothing was rolled back"));

  Trial no_refusal = trial_of(asked(1), {with("perfect", 3, matching)});
  EXPECT_EQ(cache_rollback.examine(no_refusal).outcome, Outcome::vacuous);
  EXPECT_EQ(acceptance_correct.examine(no_refusal).outcome, Outcome::pass);

  Trial no_promise = trial_of(asked(1), {with("perturbed", 3, rejection)});
  EXPECT_EQ(tokens_equal.examine(no_promise).outcome, Outcome::vacuous);

  Trial no_budget = trial_of(asked(1, 0), {with("perturbed", 3, matching)});
  EXPECT_EQ(batch_invariance.examine(no_budget).outcome, Outcome::vacuous);
  EXPECT_EQ(logits_equal.examine(no_budget).outcome, Outcome::vacuous);
  EXPECT_EQ(termination_and_counters.examine(no_budget).outcome, Outcome::pass)
      << termination_and_counters.examine(no_budget).message;

  Trial nothing = trial_of(asked(1), {});
  for (const Check* const check : all_checks()) {
    EXPECT_EQ(check->examine(nothing).outcome, Outcome::vacuous) << check->name;
  }
}

TEST_F(Checks, FindingsHaveTheNameOfTheirCheck) {
  Trial trial = trial_of(asked(0), {with("perturbed", 3, matching)});
  for (const Check* const check : all_checks()) {
    EXPECT_EQ(check->examine(trial).check, check->name);
  }
}

TEST(AllChecks, EachStatesWhatItProvesBlamesAndClears) {
  std::set<std::string> names;
  for (const auto list : {all_checks(), build_checks()}) {
    for (const Check* const check : list) {
      EXPECT_TRUE(names.insert(check->name).second) << check->name;
      EXPECT_EQ(&check_named(check->name), check);
      EXPECT_STRNE(check->proves, "") << check->name;
      EXPECT_STRNE(check->blames, "") << check->name;
      EXPECT_STRNE(check->clears, "") << check->name;
      EXPECT_EQ(check->examine != nullptr, list.data() == all_checks().data()) << check->name;
    }
  }
  EXPECT_GE(names.size(), 14U);
}

}  // namespace
}  // namespace draftproof::check_test
