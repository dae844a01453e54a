// SPDX-License-Identifier: MIT
#include "tools/verify_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "oracle/checks/checks.h"
#include "tests/tools/command.h"

namespace draftproof::test::verify_plan_test {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Effort& quick() { return effort_by_name("quick"); }
const Effort& standard() { return effort_by_name("standard"); }

VerifySetup setup() {
  VerifySetup q;
  q.tables = {"best", "scalar", "third"};
  q.drafts = {"dflash:a", "model:b"};
  q.draft_tokens = {8, 5};
  q.request.prompt = {1, 2, 3, 4, 5};
  q.request.max_new_tokens = 64;
  return q;
}

std::set<std::string> described(const VerifySetup& q, const Effort& effort) {
  std::set<std::string> set;
  for (const Variation& variation : plan_variations(q, effort)) set.insert(variation.describe());
  return set;
}

TEST(VerifyPlan, EachEffortIncludesTheLowerOnes) {
  for (const auto& [less, more] : {std::pair{&quick(), &standard()}, {&standard(), &full_effort()}}) {
    const auto few = described(setup(), *less);
    const auto many = described(setup(), *more);
    EXPECT_TRUE(std::includes(many.begin(), many.end(), few.begin(), few.end())) << less->name;
    EXPECT_LT(few.size(), many.size());
    EXPECT_EQ(many.size(), plan_variations(setup(), *more).size()) << "no duplicates";
  }
}

TEST(VerifyPlan, QuickRunsTheBestTableWithOneAndTwoThreadsAllVerificationsAndTwoControls) {
  VerifySetup q = setup();
  q.drafts = {"dflash:a"};
  EXPECT_THAT(described(q, quick()), ElementsAre("draft always-reject, matching, batched, best, 2 threads",
                                                 "draft dflash:a, matching, batched, best, 1 thread",
                                                 "draft dflash:a, matching, batched, best, 2 threads",
                                                 "draft dflash:a, matching, redecode, best, 2 threads",
                                                 "draft dflash:a, matching, serial, best, 1 thread",
                                                 "draft dflash:a, matching, serial, best, 2 threads",
                                                 "draft none, matching, batched, best, 2 threads"));
}

TEST(VerifyPlan, LoadsEachTableOnceAndStartsEachDraftOnTheBest) {
  for (const Effort& effort : all_efforts()) {
    std::vector<std::string> tables;
    std::set<std::string> drafts;
    for (const Variation& variation : plan_variations(setup(), effort)) {
      if (tables.empty() || tables.back() != variation.kernels) tables.push_back(variation.kernels);
      const bool first = drafts.insert(variation.draft).second;
      EXPECT_TRUE(!first || variation.kernels == "best") << variation.describe();
    }
    EXPECT_EQ(tables.size(), std::set(tables.begin(), tables.end()).size());
  }
}

TEST(VerifyPlan, EachEffortNamesWhatItLeavesOut) {
  EXPECT_THAT(left_out(setup(), full_effort()), IsEmpty());
  const auto at_quick = left_out(setup(), quick());
  EXPECT_THAT(at_quick, Contains("kernel tables scalar, third"));
  EXPECT_THAT(at_quick, Contains("controls perfect, tree-test"));
  EXPECT_THAT(at_quick, Contains("draft lengths 1 of dflash:a, 2 of dflash:a, 3 of dflash:a, 4 of dflash:a, "
                                 "5 of dflash:a, 6 of dflash:a, 7 of dflash:a, 1 of model:b, 2 of model:b, "
                                 "3 of model:b, 4 of model:b"));
  EXPECT_THAT(at_quick, Contains("repeated runs, whole, cancelled or beside another sequence, of the drafts "
                                 "model:b, always-reject, none, perfect, tree-test"));
  EXPECT_THAT(at_quick, Contains("chunked prefill in chunks of 1, 2, 3"));
  EXPECT_THAT(at_quick, Contains("runs cancelled after their first round"));
  EXPECT_THAT(at_quick, Contains("4 of 7 other batchings of the text"));
  EXPECT_THAT(at_quick, Contains("recomputing 56 of 64 rows of plain decoding from scratch: they use a KV cache"));
  const auto at_standard = left_out(setup(), standard());
  EXPECT_THAT(at_standard, Contains("kernel tables scalar"));
  EXPECT_THAT(at_standard, Contains("draft lengths 3 of dflash:a, 5 of dflash:a, 6 of dflash:a, 7 of dflash:a, "
                                    "3 of model:b"));
  EXPECT_LT(at_standard.size(), at_quick.size());
}

TEST(VerifyPlan, WhatDoesNotExistIsNotLeftOut) {
  VerifySetup q = setup();
  q.tables = {"best"};
  q.drafts = {"none"};
  q.draft_tokens = {0};
  q.request.prompt = {1};
  q.request.max_new_tokens = 4;
  EXPECT_THAT(left_out(q, standard()),
              ElementsAre("3 other combinations of draft, table, threads and kind of verification",
                          "repeated runs, whole, cancelled or beside another sequence, of the drafts perfect, "
                          "tree-test",
                          "2 of 7 other batchings of the text"));
}

TEST(VerifyPlan, ALongTextIsSampledAtFullEffortToo) {
  VerifySetup q = setup();
  q.request.max_new_tokens = 1000;
  EXPECT_THAT(left_out(q, full_effort()),
              ElementsAre("recomputing 750 of 1000 rows of plain decoding from scratch: they use a KV cache"));
}

Paces paces_of(const VerifySetup& q) {
  Paces paces;
  for (const Variation& variation : plan_variations(q, full_effort())) {
    paces.drafts[variation.draft] = {.token = 0.1, .prompt_row = 0.01};
    paces.tables[variation.kernels] = {.token = variation.kernels == "best" ? 0.1 : 1, .prompt_row = 0.1};
  }
  paces.loading = 1;
  return paces;
}

TEST(Estimate, HasAStepForEachRunAndCheckAndGrowsWithEffortLengthAndSlowTables) {
  const VerifySetup q = setup();
  const auto whole = [&](const VerifySetup& of, const Effort& effort) {
    const auto steps = plan_steps(of, effort, paces_of(of));
    EXPECT_EQ(steps.size(), plan_variations(of, effort).size() + all_checks().size() + 1);
    return seconds_left(steps, 0, 0);
  };
  EXPECT_GT(whole(q, quick()), 4 * 64 * 0.1);
  EXPECT_GT(whole(q, standard()), 2 * whole(q, quick()));
  EXPECT_GT(whole(q, full_effort()), 1.5 * whole(q, standard()));
  VerifySetup longer = q;
  longer.request.max_new_tokens = 128;
  EXPECT_NEAR(whole(longer, quick()) / whole(q, quick()), 2, 0.2) << "linear in the length";
  VerifySetup fast = q;
  fast.tables = {"best"};
  EXPECT_GT(whole(q, full_effort()), 3 * whole(fast, full_effort()));
}

TEST(Estimate, ScalesWithTheTimeOfFinishedSteps) {
  const std::vector<double> steps{1, 2, 3, 4};
  EXPECT_EQ(seconds_left(steps, 0, 0), 10);
  EXPECT_EQ(seconds_left(steps, 2, 3), 7) << "as estimated";
  EXPECT_EQ(seconds_left(steps, 2, 6), 14) << "twice as slow as estimated";
  EXPECT_EQ(seconds_left(steps, 4, 6), 0);
  EXPECT_EQ(in_words(0.2), "less than a minute");
  EXPECT_EQ(in_words(61), "2 minutes");
  EXPECT_EQ(in_words(7200), "2.0 hours");
}

const std::vector<std::string> words{"verify",           fixture("external/qwen3-tiny-tied"),
                                     "--draft",          "tree-test",
                                     "--prompt-tokens",  "5,6,7",
                                     "--max-new-tokens", "12"};

Outcome verify_with(std::vector<std::string> more, const std::string& environment = "") {
  more.insert(more.begin(), words.begin(), words.end());
  return run_command(more, environment);
}

TEST(VerifyEffortSlow, IsNamedWithWhatItLeavesOutInTextAndReport) {
  const Outcome text = verify_with({"--effort", "quick"});
  EXPECT_EQ(text.status, 0) << text.err << text.out;
  EXPECT_THAT(text.out, HasSubstr("  PASS_EXACT (effort quick: 1 of "));
  EXPECT_THAT(text.out, HasSubstr("not proved: controls perfect (left out at effort quick)"));
  EXPECT_THAT(text.err, testing::MatchesRegex("effort quick: 1 of [^\n]*: about less than a minute\n"));

  const Outcome data = verify_with({"--effort", "quick", "--json", "-", "--quiet"});
  EXPECT_EQ(data.err, "");
  const json report = json::parse(data.out);
  EXPECT_THAT(report["scope"].get<std::string>(), testing::StartsWith("effort quick: 1 of "));
  EXPECT_EQ(report["runs"].size(), 7U);
  EXPECT_THAT(report["unproved"].dump(), HasSubstr("left out at effort quick"));
}

TEST(VerifyEffort, IsStandardByDefaultAndNonsenseIsRefused) {
  const Outcome usual = verify_with({"--kernels", "scalar", "--json", "-", "--quiet"});
  EXPECT_EQ(usual.status, 0) << usual.err;
  EXPECT_THAT(json::parse(usual.out)["scope"].get<std::string>(), testing::StartsWith("effort standard: "));
  const Outcome nonsense = verify_with({"--effort", "nonsense"});
  EXPECT_EQ(nonsense.status, 3);
  EXPECT_THAT(nonsense.err, HasSubstr("--effort: 'nonsense' is none of quick, standard, full"));
  EXPECT_EQ(std::count(nonsense.err.begin(), nonsense.err.end(), '\n'), 1);
}

// The library of tests/tools/crossed_rows.cpp mixes rows in products as wide as the model only: the kernels look fit.
TEST(VerifyEffortSlow, FindsMixedRowsAtQuick) {
  const std::string library = "LD_LIBRARY_PATH=" + quoted(CROSSED_ROWS_FOLDER) + " CROSSED_INPUTS=";
  const std::vector<std::string> openblas{"--effort", "quick", "--kernels", "openblas", "--json", "-", "--quiet"};
  const Outcome mixed = verify_with(openblas, library + "48");
  EXPECT_EQ(mixed.status, 1) << mixed.err;
  const json report = json::parse(mixed.out);
  ASSERT_FALSE(report["checks"].empty());
  for (const json& check : report["checks"]) {
    EXPECT_TRUE(check["name"] != "logits_equal" || check["outcome"] == "fail") << check.dump();
  }
  const Outcome sound = verify_with(openblas, library + "1");
  EXPECT_EQ(sound.status, 0) << sound.err << sound.out;
}

}  // namespace
}  // namespace draftproof::test::verify_plan_test
