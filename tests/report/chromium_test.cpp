// SPDX-License-Identifier: MIT
// Pages in a browser: nothing sticks out, nothing overlaps, nothing is asked for, at the width of a desk and of a hand.
#include "tests/report/chromium.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/realistic.h"
#include "tests/report/samples.h"

namespace draftproof::test::chromium_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int desk = 1280;
constexpr int hand = 390;

const std::string snapshot = std::string(DRAFTPROOF_SOURCE_DIR) + "/fixtures/snapshots/mutants.txt";

/// Reports that stretch a page: one depth and 512, three tokens and millions, names without an end.
std::vector<Report> stretched() {
  Report few = checked_trace();
  few.drafts = {draft_of("one", 1, 3)};
  few.token_tests = {compute_distribution(3, 0.1)};
  Report many = checked_trace();
  many.drafts = {draft_of("many", 512, 3'000'000)};
  many.token_tests = {compute_distribution(987'654'321, 250)};
  Report impossible = checked_trace();
  impossible.token_tests[0].e_value = std::numeric_limits<double>::infinity();
  impossible.token_tests[0].curve.emplace_back(impossible.token_tests[0].tokens, impossible.token_tests[0].e_value);
  Report endless = full_report();
  const std::string name(3000, 'W');
  endless.subject = endless.reason = endless.about[0].first = endless.about[1].second = endless.runs[0] = name;
  endless.drafts[0].name = endless.token_tests[0].suspect = endless.findings[1].check = endless.findings[1].message =
      name;
  Failure& failure = *endless.findings[1].failure;
  failure.run = failure.expected = failure.observed = failure.facts[0] = failure.blames = failure.reproduce = name;
  Divergence& divergence = endless.divergences[0];
  divergence.run = divergence.before = divergence.plain = divergence.observed = name;
  endless.matrix.rows[0].name = endless.matrix.rows[0].cause = endless.matrix.checks[0] = name;
  return {few, many, impossible, endless};
}

std::vector<Report> reports() {
  std::vector<Report> list = {Report{}, verified(), failed(), checked_trace(), examined_zoo(snapshot), full_report()};
  for (Report& report : stretched()) list.push_back(std::move(report));
  return list;
}

TEST(ChromiumSlow, FindsFaultsOfAPage) {
  const Chromium chromium;
  if (!chromium.is_there()) return;
  const std::string page =
      "<!DOCTYPE html><html><head><style>html { background: #fff }</style></head><body>"
      "<div style=\"width:1500px\">wide</div>"
      "<svg class=\"plot\" viewBox=\"0 0 380 200\" width=\"190\"><text x=\"9\" y=\"50\">100</text>"
      "<text x=\"12\" y=\"50\">200</text><text x=\"370\" y=\"90\">outside</text></svg>"
      "<img src=\"http://draftproof.invalid/a.png\"><script>window.hostile = 1</script></body></html>";
  const std::vector<Measures> list = chromium.measured({{page, hand}});
  ASSERT_EQ(list.size(), 1U);
  Measures m = list[0];
  EXPECT_EQ(m["width"], hand);
  EXPECT_GE(m["scroll"], 1500);
  EXPECT_GE(m["cut"], 1);
  EXPECT_EQ(m["overlaps"], 1);
  EXPECT_GE(m["outside"], 1);
  EXPECT_EQ(m["smallest"], 8);
  EXPECT_EQ(m["requests"], 1);
  EXPECT_EQ(m["hostile"], 1);
  EXPECT_EQ(m["background"], 255);
  EXPECT_THAT(chromium.asked_for(page), ElementsAre("http://draftproof.invalid/a.png"));
}

TEST(ChromiumSlow, FitsEveryPageToADesktopAndAPhone) {
  const Chromium chromium;
  if (!chromium.is_there()) return;
  std::vector<Frame> frames;
  for (const Report& report : reports()) {
    for (const int width : {desk, hand}) frames.push_back({report_html(report), width});
  }
  const std::vector<Measures> list = chromium.measured(frames);
  ASSERT_EQ(list.size(), frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Measures m = list[i];
    const std::string where = "report " + std::to_string(i / 2) + " at " + std::to_string(frames[i].width);
    EXPECT_EQ(m["width"], frames[i].width) << where;
    EXPECT_LE(m["scroll"], frames[i].width) << where;
    EXPECT_EQ(m["cut"], 0) << where;
    EXPECT_EQ(m["overlaps"], 0) << where;
    EXPECT_EQ(m["outside"], 0) << where;
    EXPECT_GE(m["smallest"], 10) << where << ": pixels of the smallest label";
    EXPECT_EQ(m["requests"], 0) << where;
    EXPECT_GT(m["background"], 200) << where;
  }
}

TEST(ChromiumSlow, UsesDarkColorsWhereTheyAreRequested) {
  const Chromium chromium;
  if (!chromium.is_there()) return;
  const std::vector<Measures> list = chromium.measured({{report_html(failed()), desk}}, true);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_LT(list[0].at("background"), 60);
}

TEST(ChromiumSlow, RunsNoScriptFromAName) {
  const Chromium chromium;
  if (!chromium.is_there()) return;
  std::vector<Frame> frames;
  for (const char* text :
       {"<script>window.hostile = 1</script>", "</style><script>window.hostile = 1</script>",
        "\" onmouseover=\"window.hostile = 1\" autofocus onfocus=\"window.hostile = 1",
        "</title><svg onload=\"window.hostile = 1\">", "<img src=x onerror=\"window.hostile = 1\">"}) {
    Report report = full_report();
    report.subject = report.drafts[0].name = report.matrix.rows[0].cause = report.divergences[0].plain = text;
    report.findings[1].failure->observed = report.token_tests[0].suspect = text;
    frames.push_back({report_html(report), desk});
  }
  for (Measures m : chromium.measured(frames)) {
    EXPECT_EQ(m["hostile"], 0);
    EXPECT_EQ(m["requests"], 0);
  }
}

TEST(ChromiumSlow, MakesNoRequests) {
  const Chromium chromium;
  if (!chromium.is_there()) return;
  for (const Report& report : {failed(), full_report()}) {
    EXPECT_THAT(chromium.asked_for(report_html(report)), IsEmpty());
  }
}

TEST(ChromiumSlow, RendersPagesAtBothWidthsInLightAndDark) {
  const Chromium chromium;
  if (!chromium.is_there()) return;
  for (const int width : {desk, hand}) {
    const Picture blank = chromium.pictured("<!DOCTYPE html>\n<p></p>", width, 1600);
    for (const Report& report : {failed(), checked_trace(), examined_zoo(snapshot)}) {
      const std::string html = report_html(report);
      const Picture light = chromium.pictured(html, width, 1600);
      const Picture dark = chromium.pictured(html, width, 1600, true);
      for (const Picture& picture : {light, dark}) {
        EXPECT_EQ(picture.width, static_cast<unsigned>(std::max(width, 500))) << report.command;
        EXPECT_EQ(picture.height, 1600U) << report.command;
        EXPECT_GT(picture.bytes.size(), 4 * blank.bytes.size()) << report.command << ": hardly anything is there";
      }
      EXPECT_NE(light.bytes, dark.bytes) << report.command;
    }
  }
}

}  // namespace
}  // namespace draftproof::test::chromium_test
