// SPDX-License-Identifier: MIT
#include "oracle/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/base/error.h"
#include "tests/compare/toy_engine.h"

namespace draftproof::compare_test {
namespace {

using testing::HasSubstr;
using toy_engine::ToyEngine;
using toy_engine::Ways;

CompareSetup small_setup() {
  CompareSetup setup;
  for (Token first = 1; first < 7; ++first) setup.prompts.push_back({{first, 3, 5, first}, ""});
  setup.max_new_tokens = 30;
  setup.pairs = 12;
  setup.sampled_tokens = 8;
  setup.together = 4;
  setup.context = 256;
  return setup;
}

Report compared_with(const Ways& ways, const CompareSetup& setup = small_setup(), const Ways& of_plain = {}) {
  ToyEngine plain(of_plain);
  ToyEngine speculative(ways);
  return compare_engines(plain, speculative, setup).report;
}

std::vector<std::string> failed_checks(const Report& report) {
  std::vector<std::string> names;
  for (const Finding& finding : report.findings) {
    if (finding.outcome == Outcome::fail) names.push_back(finding.check);
  }
  return names;
}

TEST(Compare, ARightEnginePassesAndEverythingIsComparedThatItCan) {
  int requests_at_once = 0;
  Ways ways;
  ways.before = [&](EngineRequest&, int, int together) { requests_at_once = std::max(requests_at_once, together); };
  const Report report = compared_with(ways);
  EXPECT_EQ(report.verdict, ReportVerdict::pass_stat) << report_text(report);
  EXPECT_THAT(failed_checks(report), testing::IsEmpty());
  EXPECT_EQ(requests_at_once, 8) << "twice `together`, of greedy texts";
  EXPECT_EQ(report.findings.size(), 10u);
  EXPECT_EQ(report.bets.size(), 6u);
}

/// A wrong engine, and the check that finds it.
struct Fault {
  std::string name;
  Ways ways;
  std::string check;
};

void change_token(EngineAnswer& answer, std::size_t place) {
  if (!answer.answered() || answer.texts[0].tokens.size() <= place) return;
  Token& token = answer.texts[0].tokens[place];
  token = token == 7 ? 8 : 7;
}

std::vector<Fault> faults() {
  using Answer = EngineAnswer;
  using Asked = EngineRequest;
  return {
      {"another token", {.after = [](const Asked&, Answer& a, int, int) { change_token(a, 6); }}, "greedy_tokens"},
      {"another token with others beside it",
       {.after =
            [](const Asked&, Answer& a, int, int together) {
              if (together > 1) change_token(a, 9);
            }},
       "greedy_tokens"},
      {"a token too many",
       {.after =
            [](const Asked& asked, Answer& a, int, int) {
              if (a.texts[0].finish == "length" && asked.max_new_tokens == 7) a.texts[0].tokens.push_back(1);
            }},
       "option_tokens"},
      {"penalties do not see the prompt",
       {.before =
            [](Asked& asked, int, int) {
              if (asked.sampling.penalizes()) asked.sampling.repeat_last_n = 1;
            }},
       "option_tokens"},
      {"the bias is ignored",
       {.before = [](Asked& asked, int, int) { asked.sampling.logit_bias.clear(); }},
       "option_tokens"},
      {"bans are ignored", {.before = [](Asked& asked, int, int) { asked.banned.clear(); }}, "option_tokens"},
      {"a proposal that does not fit into the context ends the text",
       {.after =
            [](const Asked& asked, Answer& a, int, int) {
              if (asked.prompt.size() + 8 == 256 && a.texts[0].tokens.size() == 8) a.texts[0].tokens.pop_back();
            }},
       "option_tokens"},
      {"stop tokens inside accepted draft tokens are overlooked",
       {.before = [](Asked& asked, int, int) { asked.stop_tokens.clear(); }},
       "option_tokens"},
      {"stop strings are overlooked",
       {.before = [](Asked& asked, int, int) { asked.stop_strings.clear(); }},
       "option_tokens"},
      {"the finish reason of accepted draft tokens",
       {.after = [](const Asked&, Answer& a, int, int) { a.texts[0].finish = "length"; }},
       "finish_reason"},
      {"a space is lost", {.after = [](const Asked&, Answer& a, int, int) { a.texts[0].text->pop_back(); }}, "text"},
      {"usage counts draft tokens",
       {.after = [](const Asked&, Answer& a, int, int) { a.completion_tokens += 3; }},
       "usage"},
      {"logprobs of accepted draft tokens are 0",
       {.after =
            [](const Asked&, Answer& a, int, int) {
              for (std::size_t i = 1; i < a.texts[0].logprobs.size(); i += 2) a.texts[0].logprobs[i] = 0;
            }},
       "logprobs"},
      {"logprobs of accepted draft tokens are left out",
       {.after = [](const Asked&, Answer& a, int, int) { a.texts[0].logprobs.resize(a.texts[0].logprobs.size() / 2); }},
       "logprobs"},
      {"the most likely tokens are left out",
       {.after = [](const Asked&, Answer& a, int, int) { a.texts[0].top_logprobs.clear(); }},
       "logprobs"},
      {"a stream loses its last token",
       {.after =
            [](const Asked& asked, Answer& a, int, int) {
              if (asked.stream) a.texts[0].tokens.pop_back();
            }},
       "stream_equals_whole"},
      {"a crash where there is top_k alone",
       {.after =
            [](const Asked& asked, Answer& a, int, int) {
              if (asked.sampling.top_k == 5 && asked.sampling.top_p == 1)
                a = {.error = "max(): Expected reduction dim"};
            }},
       "answers"},
      {"one text where two were asked for",
       {.after =
            [](const Asked& asked, Answer& a, int, int) {
              if (asked.choices == 2) a.texts.pop_back();
            }},
       "answers"},
      {"a kept cache that lacks the last token",
       {.before =
            [](Asked& asked, int, int) {
              if (!asked.session.empty() && asked.prompt.size() > 20) asked.prompt.erase(asked.prompt.end() - 5);
            }},
       "second_turn"},
  };
}

class OfFaults : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(Compare, OfFaults, testing::ValuesIn(faults()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

TEST_P(OfFaults, IsFoundByTheCheckThatIsAboutItWithARequestThatRepeatsIt) {
  const Report report = compared_with(GetParam().ways);
  EXPECT_EQ(report.verdict, ReportVerdict::bug_proven) << report_text(report);
  EXPECT_THAT(failed_checks(report), testing::Contains(GetParam().check)) << report_text(report);
  for (const Finding& finding : report.findings) {
    if (finding.failure) {
      EXPECT_THAT(finding.failure->reproduce, HasSubstr("ask the toy"));
    }
  }
}

TEST(Compare, AStateThatACancelledRequestLeavesBehindIsFound) {
  bool cancelled = false;
  Ways ways;
  ways.before = [&](EngineRequest& asked, int, int) { cancelled = cancelled || asked.cancel_after > 0; };
  ways.after = [&](const EngineRequest& asked, EngineAnswer& answer, int, int) {
    if (cancelled && asked.cancel_after == 0) change_token(answer, 4);
  };
  EXPECT_THAT(failed_checks(compared_with(ways)), testing::Contains("after_cancel"));
}

TEST(Compare, AnEngineThatIsGoneEndsTheComparisonAndIsAFinding) {
  int asked_after = 0;
  Ways ways;
  ways.after = [&](const EngineRequest&, EngineAnswer& answer, int number, int) {
    if (number > 8) ++asked_after;
    if (number >= 8) answer = {.error = "it cannot be reached", .broken = true};
  };
  const Report report = compared_with(ways);
  EXPECT_EQ(report.verdict, ReportVerdict::bug_proven);
  EXPECT_THAT(failed_checks(report), testing::ElementsAre("answers"));
  EXPECT_THAT(report.reason, HasSubstr("is gone"));
  EXPECT_LT(asked_after, 8) << "the rest of those that were asked together with the first one";
}

TEST(Compare, OptionsThatThePlainEngineRefusesAreNoFaultOfSpeculation) {
  Ways ways;
  ways.after = [](const EngineRequest& asked, EngineAnswer& answer, int, int) {
    if (asked.sampling.top_k == 5) answer = {.error = "top_k is not supported", .refused = true};
  };
  const Report report = compared_with(ways, small_setup(), ways);
  EXPECT_EQ(report.verdict, ReportVerdict::pass_stat) << report_text(report);
  EXPECT_THAT(report.unproved, testing::Contains(HasSubstr("top_k is not supported")));
}

TEST(Compare, AnEngineThatDraftsNothingIsVacuous) {
  const Report report = compared_with({.drafted = 0});
  EXPECT_EQ(report.verdict, ReportVerdict::vacuous);
}

TEST(Compare, APlainEngineThatDoesNotAnswerIsAnErrorWithItsWords) {
  Ways ways;
  ways.after = [](const EngineRequest&, EngineAnswer& answer, int, int) { answer = {.error = "no model is loaded"}; };
  try {
    compared_with({}, small_setup(), ways);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no model is loaded; nothing can be compared with it"));
  }
}

/// Logprobs that are off by up to `by`, as those of an engine whose sums depend on what it reads together.
Ways noisy(double by) {
  Ways ways;
  ways.after = [by](const EngineRequest& asked, EngineAnswer& answer, int, int together) {
    for (std::size_t i = 0; i < answer.texts[0].logprobs.size(); ++i) {
      const auto key =
          static_cast<double>((i * 31 + asked.prompt.size() * 17 + static_cast<std::size_t>(together)) % 7);
      answer.texts[0].logprobs[i] += by * (key / 6 - 0.5);
    }
  };
  return ways;
}

TEST(Compare, TheSpreadOfThePlainEngineIsGrantedAndNoMore) {
  const Ways plain = noisy(0.02);
  const Report same = compared_with(noisy(0.02), small_setup(), plain);
  EXPECT_EQ(same.verdict, ReportVerdict::pass_stat) << report_text(same);
  const Report exact_plain = compared_with(noisy(0.02), small_setup(), {});
  EXPECT_NE(exact_plain.verdict, ReportVerdict::pass_stat) << "the plain engine shows no spread";
  const Report wrong = compared_with(noisy(2.0), small_setup(), plain);
  EXPECT_THAT(failed_checks(wrong), testing::Contains("logprobs"));
}

TEST(Compare, WhereTextsDifferWithinTheSpreadIsATieAndBeyondItIsNot) {
  // The gap that is said of every token: 0.004 is within what the plain engine differs by from itself, 0.03 is neither
  // that nor certain, and 3 is a fault.
  const auto compared_at = [](double gap) {
    CompareSetup setup = small_setup();
    setup.gap = [gap](const EngineRequest&, std::span<const Token>, std::optional<Token>, std::optional<Token>) {
      return std::optional(gap);
    };
    Ways ways = noisy(0.01);
    ways.after = [inner = ways.after](const EngineRequest& asked, EngineAnswer& answer, int number, int together) {
      inner(asked, answer, number, together);
      change_token(answer, 11);
    };
    return compared_with(ways, setup, noisy(0.01));
  };
  for (const auto& [gap, verdict, explanation] :
       {std::tuple(0.004, ReportVerdict::pass_stat, "TIE"), std::tuple(0.03, ReportVerdict::undecided, "NOT_EXPLAINED"),
        std::tuple(3.0, ReportVerdict::bug_proven, "BUG")}) {
    const Report report = compared_at(gap);
    EXPECT_EQ(report.verdict, verdict);
    long greedy = 0;
    for (const TextDifference& difference : report.differences) {
      EXPECT_EQ(difference.explanation, explanation);
      EXPECT_EQ(difference.gap, gap);
      EXPECT_EQ(difference.gap_from, "the target");
      EXPECT_NE(difference.plain, difference.observed);
      if (difference.run.starts_with("greedy, ")) ++greedy;
    }
    EXPECT_EQ(greedy, 12) << "of six texts alone and eight together those that have a token 11";
  }
  EXPECT_THAT(compared_with({}).differences, testing::IsEmpty());
}

TEST(Compare, AWrongDistributionIsFoundWithoutAModel) {
  CompareSetup setup = small_setup();
  setup.pairs = 400;
  Ways ways;
  ways.before = [](EngineRequest& asked, int, int) {
    if (asked.sampling.temperature == 1 && asked.sampling.top_k == 0) asked.sampling.temperature = 0.5f;
  };
  const Report report = compared_with(ways, setup);
  EXPECT_EQ(report.verdict, ReportVerdict::bug_stat) << report_text(report);
  EXPECT_TRUE(report.bets[0].alarm);
  EXPECT_FALSE(report.bets[1].alarm) << "top_k alone is right";
}

}  // namespace
}  // namespace draftproof::compare_test
