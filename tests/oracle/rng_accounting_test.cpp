// SPDX-License-Identifier: MIT
// rng_accounting on recorded draws, and on rounds, that were changed in one place each.
#include "oracle/checks/recorded_draws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "oracle/checks/checks.h"
#include "tests/oracle/told.h"
#include "zoo/zoo_subject.h"

namespace draftproof::rng_accounting_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RecordingSource, DrawsLikePhiloxSourceAndRecordsEveryDraw) {
  RecordingSource recording(7);
  PhiloxSource plain(7);
  const std::array<std::uint64_t, 3> weights = {1, 2, 3};
  const Key first{0, 5, Purpose::accept};
  const Key second{1, 6, Purpose::draft};
  for (const Key& key : {first, second, first}) {
    EXPECT_EQ(recording.sample_index(key, weights), plain.sample_index(key, weights));
  }
  EXPECT_THAT(recording.draws(),
              ElementsAre(RecordedDraw{7, first, 0, 6}, RecordedDraw{7, second, 0, 6}, RecordedDraw{7, first, 1, 6}));
}

class RngAccounting : public testing::Test {
 protected:
  static Trial trial_of(Subject& subject, const Rule& rule, int sequence = 0) {
    Request request;
    request.prompt = {1, 2, 3};
    request.sampling.temperature = 1;
    request.max_new_tokens = 12;
    request.sequence = sequence;
    std::vector<Variation> variations(3);
    variations[1].draft = "perturbed";
    variations[2].draft = "always-reject";
    for (Variation& variation : variations) {
      variation.rule = &rule;
      variation.draft_max = variation.draft == "none" ? 0 : 3;
    }
    return Trial(subject, request, 3, variations);
  }
  template <class Tamper>
  void catches(const Rule& rule, Tamper tamper, const char* words) {
    Trial trial = trial_of(subject_, rule);
    ASSERT_EQ(rng_accounting.examine(trial).outcome, Outcome::pass) << rng_accounting.examine(trial).message;
    tamper(trial.runs[1].draws);
    const Finding finding = rng_accounting.examine(trial);
    EXPECT_EQ(finding.outcome, Outcome::fail) << words;
    EXPECT_THAT(told(finding), HasSubstr(words));
    expect_whole(finding);
    EXPECT_THAT(finding.message, HasSubstr("draft perturbed"));
  }
  static std::vector<RecordedDraw>::iterator first_of(std::vector<RecordedDraw>& draws, Purpose purpose) {
    return std::find_if(draws.begin(), draws.end(),
                        [&](const RecordedDraw& entry) { return entry.key.purpose == purpose; });
  }

  zoo::ZooSubject subject_{{.vocabulary = 4, .levels = 3, .seed = 5}};
};

TEST_F(RngAccounting, FindsMissingExtraAndChangedEntries) {
  for (const Purpose purpose : {Purpose::draft, Purpose::accept, Purpose::residual, Purpose::target}) {
    catches(
        rejection, [&](std::vector<RecordedDraw>& draws) { draws.erase(first_of(draws, purpose)); }, name_of(purpose));
    catches(
        rejection, [&](std::vector<RecordedDraw>& draws) { ++first_of(draws, purpose)->key.position; }, "position");
    catches(
        rejection, [&](std::vector<RecordedDraw>& draws) { ++first_of(draws, purpose)->seed; },
        "another random stream");
    catches(
        rejection, [&](std::vector<RecordedDraw>& draws) { first_of(draws, purpose)->key.sequence = 1; },
        "another random stream");
  }
  const auto one_number_for_both = [](std::vector<RecordedDraw>& draws) {
    first_of(draws, Purpose::residual)->key.purpose = Purpose::accept;
  };
  catches(rejection, one_number_for_both, "need a draw for");
  catches(
      rejection, [](std::vector<RecordedDraw>& draws) { draws.clear(); }, "there is no further draw");
  catches(
      matching, [](std::vector<RecordedDraw>& draws) { draws.pop_back(); }, "there is no further draw");
}

TEST_F(RngAccounting, FindsADiscardedDraw) {
  catches(
      rejection,
      [](std::vector<RecordedDraw>& draws) {
        draws.push_back({3, {0, 40, Purpose::residual}, 0, 9});
      },
      "no decision of the rounds used it");
  catches(
      matching,
      [](std::vector<RecordedDraw>& draws) {
        RecordedDraw again = draws.back();
        ++again.counter;
        ++again.bound;
        draws.push_back(again);
      },
      "once more");
}

TEST_F(RngAccounting, TwoSequencesOfOneSeedShareNoKey) {
  Trial zero = trial_of(subject_, rejection, 0);
  Trial one = trial_of(subject_, rejection, 1);
  EXPECT_EQ(rng_accounting.examine(zero).outcome, Outcome::pass);
  EXPECT_EQ(rng_accounting.examine(one).outcome, Outcome::pass);
  for (const RecordedDraw& entry : zero.runs[1].draws) {
    for (const RecordedDraw& other : one.runs[1].draws) EXPECT_NE(entry.key, other.key);
  }
}

TEST_F(RngAccounting, DrawingATokenBlockAndATokenIsOneDecision) {
  zoo::ZooSubject wide({.vocabulary = 200, .levels = 3, .seed = 5});
  for (const Rule* rule : {&matching, &rejection, &block}) {
    Trial trial = trial_of(wide, *rule);
    EXPECT_EQ(rng_accounting.examine(trial).outcome, Outcome::pass) << rng_accounting.examine(trial).message;
    EXPECT_GT(trial.runs[1].draws.back().counter, 0);
  }
}

}  // namespace
}  // namespace draftproof::rng_accounting_test
