// SPDX-License-Identifier: MIT
// What a trace says about the state of the draft: a draft that has lost its place is found where it begins, and is
// never called lossy; a right one is never flagged. And a draft that is worse than a recorded one is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracle/spectrace/show.h"
#include "ref/drafts/chain.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/ngram_map_k.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace::draft_positions_test {
namespace {

using testing::HasSubstr;

TraceReport replayed(Recorded& recorded, const std::string& text) {
  const File file(text);
  return replay(file.path(), recorded.target());
}

Case asked(const Rule& rule, int max_new_tokens = 24) {
  return {"", &rule, {.temperature = 1}, "perturbed", Verification::batched, {}, max_new_tokens};
}

struct Astray {
  zoo::NewDraft draft;
  const char* check;
};
constexpr Astray drafts_astray[] = {{zoo::anchor_one_early, "draft_anchor"},
                                    {zoo::continues_the_wrong_row, "draft_held"},
                                    {zoo::drops_a_row_of_partial_acceptance, "draft_held"},
                                    {zoo::repeats_a_row_of_partial_acceptance, "draft_held"}};

TEST(DraftPositions, ADraftThatHasLostItsPlaceIsAPerfRegressionFromTheRoundWhereItBegins) {
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const Astray& astray : drafts_astray) {
      Recorded recorded({.vocabulary = 6, .levels = 4, .seed = 5}, {.draft = astray.draft});
      const std::string text = recorded.text(asked(*rule));
      const TraceReport report = replayed(recorded, text);
      ASSERT_EQ(report.verdict(), ReportVerdict::perf_regression) << report_text(make_report(report));
      EXPECT_TRUE(report.findings.empty()) << "the text is right";
      EXPECT_EQ(exit_status(report.verdict()), 4);
      EXPECT_EQ(report.slower.front().check, std::string(astray.check));

      std::int64_t first = -1;  // the first round whose numbers disagree
      for (const std::string& line : lines_of(text)) {
        const Json round = Json::parse(line);
        if (round["type"] != "round" || first >= 0) continue;
        const bool held = round["draft_held"][0] == round["target_held"];
        const bool placed = !round.contains("draft_anchor") || round["draft_anchor"] == round["target_held"];
        if (!held || !placed) first = round["round"];
      }
      EXPECT_EQ(report.slower.front().place.round, first);
      const auto converted = make_report(report);
      EXPECT_EQ(converted.findings.front().outcome, Outcome::perf_regression);
      EXPECT_THAT(report_text(converted), HasSubstr("PERF_REGRESSION"));
    }
  }
}

TEST(DraftPositions, OfRightDraftsAreNotFlaggedAndATextThatIsWrongAsWellIsABug) {
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const char* const draft : {"none", "perturbed", "always-reject", "perfect", "variable-length"}) {
      Recorded recorded;
      Case c = asked(*rule);
      c.draft = draft;
      const TraceReport report = replayed(recorded, recorded.text(c));
      EXPECT_TRUE(report.slower.empty()) << draft << "\n" << report_text(make_report(report));
      EXPECT_NE(report.verdict(), ReportVerdict::perf_regression);
    }
  }
  Recorded recorded({.vocabulary = 6, .levels = 4, .seed = 5}, {.draft = zoo::anchor_one_early});
  std::vector<std::string> lines = lines_of(recorded.text(asked(rejection)));
  Json round = Json::parse(lines[3]);
  round["target_held"] = round["target_held"].get<int>() + 1;
  lines[3] = round.dump();
  const TraceReport both = replayed(recorded, sealed(lines));
  EXPECT_EQ(both.verdict(), ReportVerdict::bug_proven);
  EXPECT_FALSE(both.slower.empty());
}

TEST(DraftPositions, ManyOfThemNeverHideAFaultOfTheText) {
  Recorded recorded({.vocabulary = 6, .levels = 4, .seed = 5}, {.draft = zoo::anchor_one_early});
  std::vector<std::string> lines = lines_of(recorded.text(rejection, [&](Writer& writer) {
    for (int sequence = 0; sequence < 120; ++sequence) recorded.write(writer, asked(rejection, 4), sequence);
  }));
  Json last = Json::parse(lines.back());
  last["emitted_count"] = 99;
  lines.back() = last.dump();
  const TraceReport report = replayed(recorded, sealed(lines));
  EXPECT_EQ(report.slower.size(), TraceReport::slower_max);
  ASSERT_EQ(report.verdict(), ReportVerdict::bug_proven);
  EXPECT_STREQ(report.findings.front().check, "count");
}

/// Stages of a chain: the first looks things up in the text, the second is a model.
std::unique_ptr<ChainDraft> chain(Model& model, int capacity) {
  std::vector<std::unique_ptr<Draft>> stages;
  stages.push_back(std::make_unique<NgramMapKDraft>(3, NgramMapKSettings{.n = 1, .m = 3, .min_hits = 1}));
  stages.push_back(std::make_unique<ModelDraft>(model, capacity, 3));
  return std::make_unique<ChainDraft>(std::move(stages));
}

TEST(DraftPositions, OfAChainCountWhatItsNetworkHasYetToRead) {
  const auto target = make_hash_model({.vocabulary = 6, .levels = 4, .seed = 5});
  const auto draft = chain(*target, 100);
  const std::string text = decoded(*draft, rejection, {}, 48).text;
  EXPECT_THAT(text, HasSubstr("\"draft_unread\":[0,")) << "the model did not read what it was not asked about";
  const File file(text);
  const TraceReport report = replay(file.path());
  EXPECT_TRUE(report.slower.empty()) << report_text(make_report(report));
  EXPECT_GT(report.looked.at("draft_anchor"), 0);
  std::vector<std::string> lines = lines_of(text);
  for (std::string& line : lines) {  // without them the model seems to have lost its place
    Json round = Json::parse(line);
    round.erase("draft_unread");
    line = round.dump();
  }
  const File changed(sealed(lines));
  EXPECT_EQ(replay(changed.path()).slower.size(), 1U);
}

std::string recorded_with(zoo::NewDraft draft, std::uint64_t model = 5) {
  Recorded recorded({.vocabulary = 12, .levels = 8, .seed = model}, {.draft = draft});
  return recorded.text(matching, [&](Writer& writer) {
    for (int sequence = 0; sequence < 4; ++sequence) recorded.write(writer, asked(matching, 400), sequence);
  });
}

TEST(DraftPositions, ADraftWorseThanARecordedOneIsAPerfRegressionAndOneAsGoodIsNot) {
  const File before(recorded_with(nullptr));
  const File same(recorded_with(nullptr));
  const TraceComparison unchanged = compare(before.path(), same.path());
  ASSERT_TRUE(unchanged.same());
  EXPECT_FALSE(unchanged.drafts.slower());
  EXPECT_EQ(unchanged.drafts.e_value(), 1);
  EXPECT_GT(unchanged.drafts.accepted()[0], 100);

  // A missing map of a reduced vocabulary: hardly a draft token is accepted.
  const File unmapped(recorded_with(zoo::proposes_the_neighbor));
  const TraceComparison worse = compare(before.path(), unmapped.path());
  ASSERT_TRUE(worse.same()) << "the text is right all the same";
  EXPECT_TRUE(worse.drafts.slower()) << worse.text();
  EXPECT_THAT(worse.drafts.slower_from(), testing::StartsWith("position "));
  EXPECT_THAT(worse.text(), HasSubstr("PERF_REGRESSION"));
  const TraceComparison better = compare(unmapped.path(), before.path());
  EXPECT_FALSE(better.drafts.slower()) << "a better draft is no regression\n" << better.text();
}

}  // namespace
}  // namespace draftproof::spectrace::draft_positions_test
