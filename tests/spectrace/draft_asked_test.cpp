// SPDX-License-Identifier: MIT
// What a draft is asked for: a tuner's choices follow from the costs and rounds that the trace states. A tuner that
// learns something else is found where it first chooses otherwise, and is never called lossy; a right one is never
// flagged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/spectrace/tuned.h"

namespace draftproof::spectrace::draft_asked_test {
namespace {

using namespace tuned;

DraftCosts model_costs() {
  DraftCosts costs = chain_costs();
  costs.draft.erase(costs.draft.begin());
  costs.reading.erase(costs.reading.begin());
  return costs;
}

using Learn = void (*)(Tuner& tuner, int asked, int drafted, int accepted);
void learn(Tuner& tuner, int asked, int drafted, int accepted) { tuner.learn({asked}, drafted, accepted); }
void learn_nothing(Tuner&, int, int, int) {}
void count_the_bonus_token(Tuner& tuner, int asked, int drafted, int accepted) {
  tuner.learn({asked}, drafted, std::min(accepted + 1, drafted));
}
void take_all_as_accepted(Tuner& tuner, int asked, int drafted, int) { tuner.learn({asked}, drafted, drafted); }

/// A model asked for what a tuner chooses that learns in one of these ways.
class TunedModel final : public Draft {
 public:
  TunedModel(Model& model, int capacity, Learn learn)
      : model_(model, capacity, most), tuner_(model_costs()), learn_(learn) {}

  int draft_max() const override { return most; }
  const DraftCosts* costs() const override { return &tuner_.costs(); }
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    model_.observe(committed, features);
    const int accepted = std::min(static_cast<int>(committed.size()) - 1, drafted_);
    if (asked_ >= 0) learn_(tuner_, asked_, drafted_, accepted);
    asked_ = -1;
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    asked_ = tuner_.length(0, limit);
    builder.ask(asked_);
    if (asked_ > 0) model_.propose(anchor, asked_, builder);
    drafted_ = builder.size();
  }
  void forget() override { model_.forget(); }

 private:
  ModelDraft model_;
  Tuner tuner_;
  Learn learn_;
  int asked_ = -1;
  int drafted_ = 0;
};

Report replayed(const std::string& text) {
  const File file(text);
  return replay(file.path());
}

Decoded of_model(std::uint64_t model_seed, const Rule& rule, Learn way) {
  const auto model = make_hash_model({.vocabulary = 6, .levels = 4, .seed = model_seed});
  TunedModel draft(*model, 400, way);
  return decoded(draft, rule);
}

TEST(DraftAsked, ByARightTunerFollowsFromTheCostsAndRoundsOfTheTrace) {
  std::set<std::vector<int>> choices;
  long cut = 0;
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const std::uint64_t model : {agrees, differs}) {
      for (const bool stops : {false, true}) {
        const Decoded run = of_chain(model, *rule, stops ? std::vector<Token>{0} : std::vector<Token>{});
        const Report report = replayed(run.text);
        EXPECT_TRUE(report.slower.empty()) << report_text(report_of(report));
        EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(report_of(report));
        EXPECT_GT(report.looked.at("draft_asked"), 0);
        for (const Round& round : run.trace.rounds) {
          choices.insert(round.proposal.asked);
          cut += round.proposal.cut;
        }
      }
      const Decoded alone = of_model(model, *rule, learn);
      EXPECT_TRUE(replayed(alone.text).slower.empty());
    }
  }
  EXPECT_GT(choices.size(), 8U) << "the tuner had something to choose";
  EXPECT_GT(cut, 0) << "draft tokens behind a stop token";
}

TEST(DraftAsked, ByATunerThatLearnsSomethingElseIsAPerfRegressionFromItsFirstOtherChoiceOn) {
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const Learn way : {learn_nothing, count_the_bonus_token, take_all_as_accepted}) {
      const Decoded run = of_model(differs, *rule, way);
      Tuner right(model_costs());
      std::int64_t first = -1;
      for (std::size_t i = 0; i < run.trace.rounds.size() && first < 0; ++i) {
        const Round& round = run.trace.rounds[i];
        const int limit = std::min(most, 302 - round.position);
        if (limit < 1) break;
        if (round.proposal.asked != std::vector<int>{right.length(0, limit)}) first = static_cast<std::int64_t>(i);
        right.learn(round.proposal.asked, round.proposal.size(), round.accepted);
      }
      ASSERT_GE(first, 0) << "the mutant does what a right tuner does";
      const Report report = replayed(run.text);
      ASSERT_EQ(report.slower.size(), 1U) << report_text(report_of(report));
      EXPECT_STREQ(report.slower.front().check, "draft_asked");
      EXPECT_EQ(report.slower.front().round, first);
      EXPECT_EQ(report.verdict(), ReportVerdict::perf_regression);
    }
  }
}

TEST(DraftAsked, AnyOtherNumberOrListInATraceIsFoundInItsRound) {
  const Decoded run = of_chain(agrees, rejection);
  const std::vector<std::string> lines = lines_of(run.text);
  long changed = 0;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const Json round = Json::parse(lines[at]);
    if (!round.contains("draft_asked")) continue;
    std::vector<Json> others;
    for (std::size_t stage = 0; stage < round["draft_asked"].size(); ++stage) {
      for (const int by : {-1, 1}) {
        Json other = round;
        const int asked = round["draft_asked"][stage].get<int>() + by;
        if (asked < 0) continue;
        other["draft_asked"][stage] = asked;
        others.push_back(other);
      }
    }
    Json longer = round;
    longer["draft_asked"].push_back(1);
    others.push_back(longer);
    Json without = round;
    without.erase("draft_asked");
    others.push_back(without);
    Json cut = round;
    cut["draft_cut"] = most;
    others.push_back(cut);
    for (const Json& other : others) {
      std::vector<std::string> tampered = lines;
      tampered[at] = other.dump();
      const Report report = replayed(sealed(tampered));
      ASSERT_EQ(report.slower.size(), 1U) << other.dump() << report_text(report_of(report));
      EXPECT_EQ(report.slower.front().line, static_cast<long>(at + 1));
      ++changed;
    }
  }
  EXPECT_GT(changed, 20);
}

TEST(DraftAsked, IsNotCheckedAgainstCostsWhereTheTraceLeavesOpenWhatARoundMayDraft) {
  const Decoded run = of_chain(differs, rejection);
  for (const char* const field : {"max_new_tokens", "max_draft_tokens"}) {
    std::vector<std::string> lines = lines_of(run.text);
    Json opening = Json::parse(lines[1]);
    ASSERT_TRUE(opening.contains("draft_costs"));
    opening.erase(field);
    lines[1] = opening.dump();
    const Report report = replayed(sealed(lines));
    EXPECT_TRUE(report.slower.empty());
    EXPECT_THAT(report.unread, testing::Contains(testing::HasSubstr("draft_costs"))) << field;
  }
}

}  // namespace
}  // namespace draftproof::spectrace::draft_asked_test
