// SPDX-License-Identifier: MIT
// The reference against exact rows: its own error is measured, is no finding, and hides none.
#include "oracle/spectrace/exact_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/spectrace/other_numerics.h"

namespace draftproof::spectrace::exact_rows_test {
namespace {

using testing::HasSubstr;

/// An engine in floats, against a reference that is far from exact: weights and KV cache in 8 bits.
class CoarseReference : public testing::Test {
 protected:
  static std::string trace(const Texts& texts) {
    static const std::shared_ptr<Model> model = tiny_model(Quantization::f32, KvFormat::f32);
    return trace_of(*model, texts);
  }
  static TraceReport checked(const std::string& text, bool twin, double slack, double tie) {
    static const TraceTarget coarse = tiny_target(Quantization::none, KvFormat::q8);
    TraceTarget target = coarse;
    target.slack = slack;
    target.tie = tie;
    if (!twin) target.twin = {};
    const File file(text);
    return replay(file.path(), target);
  }

 private:
  const Threads one_{1};
};

TEST_F(CoarseReference, WhatLiesWithinItsErrorIsNoFindingAndWhatLiesBeyondIs) {
  const Texts right{.count = 6};
  EXPECT_FALSE(checked(trace(right), false, 0, 1e-9).findings.empty()) << "the reference errs on no token";
  const TraceReport report = checked(trace(right), true, 0, 1e-9);
  EXPECT_TRUE(report.findings.empty()) << report_shown(report);
  EXPECT_GT(report.from_exact.rows, 10);
  EXPECT_GT(report.from_exact.logit, 0);

  Texts wrong = right;
  wrong.emitted = [](const std::vector<float>& logits, std::size_t place, Token token) {
    return place == 333 ? below_by(logits, 3) : token;
  };
  const TraceReport found = checked(trace(wrong), true, 0, 1e-9);
  ASSERT_EQ(found.findings.size(), 1) << report_shown(found);
  EXPECT_STREQ(found.findings[0].check, "best");
}

TEST_F(CoarseReference, RowsAndLogprobsAreHeldToExactOnesBeforeTheyAreFindings) {
  for (const bool rows : {true, false}) {
    Texts texts{.sampling = {.temperature = 1}, .count = 1, .tokens = 60, .rows = rows, .logprobs = !rows};
    EXPECT_FALSE(checked(trace(texts), false, 1e-5, 0).findings.empty()) << "the reference errs on no row";
    EXPECT_TRUE(checked(trace(texts), true, 1e-5, 0).findings.empty());
    texts.computed = [](std::vector<float>& logits, std::size_t place) {
      if (place == 40) std::ranges::reverse(logits);
    };
    const TraceReport found = checked(trace(texts), true, 1e-5, 0);
    ASSERT_EQ(found.findings.size(), 1) << report_shown(found);
    EXPECT_STREQ(found.findings[0].check, rows ? "p_row" : "log_probability");
  }
}

TEST_F(CoarseReference, TheSampleIsBoundedAndIsInTheReport) {
  const TraceReport report = checked(trace({.count = 6}), true, 0, 1);
  EXPECT_LE(report.from_exact.rows, ExactRows::rows_max);
  EXPECT_THAT(report_shown(report), HasSubstr("reference's distance from exact at most"));
  EXPECT_GT(report.from_exact.variation, 0);
}

TEST(ExactReference, IsTheTwin) {
  const Threads one(1);
  TraceTarget target = tiny_target(Quantization::none, KvFormat::q8);
  target.exact = true;
  target.reference = "float64, exact";
  target.tie = 1e-9;
  const std::shared_ptr<Model> model = tiny_model(Quantization::f32, KvFormat::f32);
  const File file(trace_of(*model, {}));
  const TraceReport report = replay(file.path(), target);
  EXPECT_TRUE(report.findings.empty()) << report_shown(report);
  EXPECT_EQ(report.from_exact.rows, 0);
  EXPECT_THAT(report_shown(report), HasSubstr("reference float64, exact"));
}

TEST(ExactReference, WithoutATwinTheReportSaysWhy) {
  TraceTarget target = tiny_target();
  target.twin = []() -> std::shared_ptr<const Twin> { throw Error("there is no such family"); };
  target.tie = 1;
  const std::shared_ptr<Model> model = tiny_model(Quantization::f32, KvFormat::f32);
  const File file(trace_of(*model, {.count = 1, .tokens = 3}));
  EXPECT_THAT(report_shown(replay(file.path(), target)), HasSubstr("not measured: there is no such family"));
}

}  // namespace
}  // namespace draftproof::spectrace::exact_rows_test
