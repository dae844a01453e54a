// SPDX-License-Identifier: MIT
// What a control shows of an engine's numerics: a right engine passes with what is granted, and no fault is granted.
#include "oracle/spectrace/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "oracle/spectrace/nearby_distribution.h"
#include "ref/base/error.h"
#include "tests/spectrace/other_numerics.h"

namespace draftproof::spectrace::control_test {
namespace {

using testing::HasSubstr;

class OfTiny : public testing::Test {
 protected:
  explicit OfTiny(Quantization weights = Quantization::none, KvFormat kv = KvFormat::q8)
      : engine_(tiny_model(weights, kv)) {}
  Model& engine() const { return *engine_; }
  static const TraceTarget& target() {
    static const TraceTarget reference = tiny_target();
    return reference;
  }
  static TraceTarget granted(const Grant& tie) {
    TraceTarget with = target();
    with.tie = tie.granted;
    with.tie_scale = tie.scale;
    return with;
  }
  static TraceTarget with_slack(const Grant& slack) {
    TraceTarget with = target();
    with.slack = slack.granted;
    with.slack_from_tokens = slack.from_tokens;
    return with;
  }
  TraceReport checked(const Texts& texts, const TraceTarget& with) const {
    const File file(trace_of(engine(), texts));
    return replay(file.path(), with);
  }
  Control control_of(const Texts& texts) const {
    const File file(trace_of(engine(), texts));
    return Control(file.path(), target());
  }
  static std::string error_of(const auto& call) {
    try {
      call();
    } catch (const Error& wrong) {
      return wrong.what();
    }
    return "";
  }

 private:
  const Threads one_{1};
  std::shared_ptr<Model> engine_;
};

using ControlTie = OfTiny;

TEST_F(ControlTie, ARightEngineOfOtherNumericsPassesAndATokenAtTenTimesTheSpreadIsFound) {
  const Grant tie = control_of({}).tie();
  const TraceReport right = checked({.first = 10}, granted(tie));
  EXPECT_TRUE(right.findings.empty()) << report_shown(right);
  EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << report_shown(right);
  const double spread = std::max(right.greedy.gap, checked({}, granted(tie)).greedy.gap);
  ASSERT_GT(spread, 0) << "the engine is not of other numerics";
  EXPECT_LT(tie.granted, 10 * spread);
  fmt::print("tie {:.3g}, scale {:.3g}, furthest gap {:.3g}: {}\n", tie.granted, tie.scale, spread, tie.basis);

  const TraceReport wrong =
      checked({.first = 10,
               .emitted = [&](const std::vector<float>& logits, std::size_t place,
                              Token token) { return place == 250 ? below_by(logits, 10 * spread) : token; }},
              granted(tie));
  ASSERT_FALSE(wrong.findings.empty()) << report_shown(wrong);
  EXPECT_STREQ(wrong.findings[0].check, "best");
}

TEST_F(ControlTie, NearTiesThatAreTakenTheWrongWayMoreOftenThanInTheControlAreFound) {
  const Grant tie = control_of({.count = 8}).tie();
  const TraceReport wrong =
      checked({.count = 8,
               .first = 10,
               .emitted =
                   [&](const std::vector<float>& logits, std::size_t, Token token) {
                     std::vector<float> others = logits;
                     others[token] = -100;
                     const auto second = std::ranges::max_element(others);
                     const double gap = static_cast<double>(logits[token] - *second);
                     return gap < tie.granted / 2 ? static_cast<Token>(second - others.begin()) : token;
                   }},
              granted(tie));
  EXPECT_TRUE(wrong.findings.empty());
  EXPECT_EQ(wrong.verdict(), ReportVerdict::bug_stat) << report_shown(wrong);
}

TEST_F(ControlTie, AControlThatIsItselfWrongIsRefusedAndNamed) {
  const Control wrong = control_of({.emitted = [](const std::vector<float>& logits, std::size_t place, Token token) {
    return place == 77 ? below_by(logits, 3) : token;
  }});
  EXPECT_THAT(error_of([&] { wrong.tie(); }), HasSubstr("is itself wrong: its token at line 80, position 80"));
}

TEST_F(ControlTie, AControlOfTooFewTokensIsRefused) {
  EXPECT_THAT(error_of([&] { control_of({.count = 1, .tokens = 50}).tie(); }),
              HasSubstr("has 50 greedy tokens that can be compared; give one of at least 100"));
  EXPECT_THAT(error_of([&] { control_of({.sampling = {.temperature = 1}, .count = 1}).tie(); }),
              HasSubstr("has 0 greedy tokens"));
}

TEST_F(ControlTie, ARunThatSpeculatesIsNoControl) {
  std::string text = trace_of(engine(), {.count = 1, .tokens = 3});
  const std::string before = R"("emitted":[)";
  text.replace(text.find(before), before.size(),
               R"("draft_tokens":[1],"accepted":0,"next_from":"residual","emitted":[)");
  const File file(text);
  EXPECT_THAT(error_of([&] { Control(file.path(), target()); }), HasSubstr("this run speculates"));
}

class ControlSlack : public OfTiny {
 protected:
  ControlSlack() : OfTiny(Quantization::f32, KvFormat::bf16) {}
};

Texts sampled(int first) {
  return {.sampling = {.temperature = 0.8F, .top_k = 20, .top_p = 0.9F}, .count = 5, .first = first};
}

TEST_F(ControlSlack, TokensUnderCutsReachAVerdictAndAnotherTemperatureIsFound) {
  const Grant slack = control_of(sampled(0)).slack();
  EXPECT_EQ(slack.from_tokens, 500);
  fmt::print("slack {:.2g}: {}\n", slack.granted, slack.basis);
  const TraceReport right = checked(sampled(20), with_slack(slack));
  EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << report_shown(right);
  Texts hotter = sampled(20);
  hotter.count = 10;
  hotter.computed = [](std::vector<float>& logits, std::size_t) {
    for (float& logit : logits) logit /= 2.5F;
  };
  TraceTarget with = with_slack(slack);
  const TraceReport wrong = checked(hotter, with);
  EXPECT_EQ(wrong.verdict(), ReportVerdict::bug_stat) << report_shown(wrong);
}

TEST_F(ControlSlack, MoreTokensThanTheControlSpeaksForAreNotProved) {
  Texts few = sampled(0);
  few.count = 1;
  const Grant slack = control_of(few).slack();
  const TraceReport report = checked(sampled(20), with_slack(slack));
  EXPECT_THAT(report_shown(report),
              HasSubstr("the slack rests on 100 sampled tokens of the control, which speak for 300"));
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided);
}

TEST_F(ControlSlack, RowsAndLogprobsOfTheControlShowTheSlackDirectly) {
  for (const bool rows : {true, false}) {
    Texts texts{.sampling = {.temperature = 1}, .count = 2, .tokens = 60, .rows = rows, .logprobs = !rows};
    const Grant slack = control_of(texts).slack();
    EXPECT_EQ(slack.from_tokens, 0);
    EXPECT_LE(slack.granted, 0.1);
    texts.first = 20;
    const TraceReport right = checked(texts, with_slack(slack));
    EXPECT_TRUE(right.findings.empty()) << report_shown(right);
    // Every fortieth row is that of a text that lacks something.
    texts.computed = [&](std::vector<float>& logits, std::size_t place) {
      if (place % 40 == 39) std::ranges::reverse(logits);
    };
    const TraceReport wrong = checked(texts, with_slack(slack));
    ASSERT_FALSE(wrong.findings.empty()) << report_shown(wrong);
    EXPECT_STREQ(wrong.findings[0].check, rows ? "p_row" : "log_probability");
  }
}

TEST_F(ControlSlack, WithoutAControlTheTracesOwnRowsShowItAndWrongOnesAreNotGranted) {
  const auto own = [&](const Texts& texts) {
    const File file(trace_of(engine(), texts));
    return std::pair(Control::slack_shown_by(file.path(), target()).granted,
                     replay(file.path(), [&] { return with_slack(Control::slack_shown_by(file.path(), target())); }()));
  };
  Texts texts{.sampling = {.temperature = 1}, .count = 2, .tokens = 60, .rows = true};
  const auto [right, of_right] = own(texts);
  EXPECT_TRUE(of_right.findings.empty()) << report_shown(of_right);
  texts.computed = [](std::vector<float>& logits, std::size_t place) {
    if (place % 40 == 39) std::ranges::reverse(logits);
  };
  const auto [wrong, of_wrong] = own(texts);
  EXPECT_LT(wrong, 2 * right);
  ASSERT_FALSE(of_wrong.findings.empty());
  EXPECT_STREQ(of_wrong.findings[0].check, "p_row");

  texts.computed = [](std::vector<float>& logits, std::size_t) { std::ranges::reverse(logits); };
  const File all_wrong(trace_of(engine(), texts));
  EXPECT_THAT(error_of([&] { Control::slack_shown_by(all_wrong.path(), target()); }),
              HasSubstr("further than numerics explain"));
  const File none(trace_of(engine(), {.count = 1}));
  EXPECT_THAT(error_of([&] { Control::slack_shown_by(none.path(), target()); }), HasSubstr("give --control"));
}

TEST_F(ControlSlack, AControlOfAnotherDistributionIsRefused) {
  Texts texts{.sampling = {.temperature = 1}, .count = 5};
  texts.computed = [](std::vector<float>& logits, std::size_t) { std::ranges::reverse(logits); };
  EXPECT_THAT(error_of([&] { control_of(texts).slack(); }), HasSubstr("further from the target than numerics explain"));
}

}  // namespace
}  // namespace draftproof::spectrace::control_test
