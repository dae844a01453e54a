// SPDX-License-Identifier: MIT
// What a draft is asked for: a tuner's choices follow from the costs, rounds and times that the trace states. A tuner
// that learns something else is found where it first chooses otherwise, and is never called lossy; a right one is never
// flagged, whatever else its machine does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
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

using Times = std::optional<RoundSeconds>;
using Learn = void (*)(Tuner& tuner, int asked, int drafted, int accepted, const Times& took);
void learn(Tuner& tuner, int asked, int drafted, int accepted, const Times& took) {
  tuner.learn({asked}, drafted, accepted, took);
}
void learn_nothing(Tuner&, int, int, int, const Times&) {}
void count_the_bonus_token(Tuner& tuner, int asked, int drafted, int accepted, const Times& took) {
  tuner.learn({asked}, drafted, std::min(accepted + 1, drafted), took);
}
void take_all_as_accepted(Tuner& tuner, int asked, int drafted, int, const Times& took) {
  tuner.learn({asked}, drafted, drafted, took);
}
void learn_no_times(Tuner& tuner, int asked, int drafted, int accepted, const Times&) {
  tuner.learn({asked}, drafted, accepted);
}
void count_the_proposal_twice(Tuner& tuner, int asked, int drafted, int accepted, const Times& took) {
  tuner.learn({asked}, drafted, accepted, RoundSeconds{took->verify, 2 * took->draft});
}
void exchange_the_times(Tuner& tuner, int asked, int drafted, int accepted, const Times& took) {
  tuner.learn({asked}, drafted, accepted, RoundSeconds{took->draft, took->verify});
}

/// What rounds take on a machine.
using Machine = Times (*)(int round, int drafted);
Times not_measured(int, int) { return std::nullopt; }
Times quiet(int, int drafted) { return RoundSeconds{0.01 * (1 + 0.15 * drafted), 0.004 * drafted}; }
/// Now and then something takes several times as long, and for some rounds everything takes longer.
Times busy(int round, int drafted) {
  RoundSeconds seconds = *quiet(round, drafted);
  if (round % 5 == 1) seconds.verify *= 4;
  if (round % 7 == 2) seconds.draft *= 6;
  const double all = round / 20 % 2 == 0 ? 2.5 : 1;
  return RoundSeconds{all * seconds.verify, all * seconds.draft};
}

/// A model asked for what a tuner chooses that learns in one of these ways.
class TunedModel final : public Draft {
 public:
  TunedModel(Model& model, int capacity, Learn learn, Machine machine)
      : model_(model, capacity, max), tuner_(model_costs()), learn_(learn), machine_(machine) {}

  int draft_max() const override { return max; }
  const DraftCosts* costs() const override { return &tuner_.costs(); }
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    model_.observe(committed, features);
    const int accepted = std::min(static_cast<int>(committed.size()) - 1, drafted_);
    if (asked_ >= 0) {
      took.push_back(machine_(static_cast<int>(took.size()), drafted_));
      learn_(tuner_, asked_, drafted_, accepted, took.back());
    }
    asked_ = -1;
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override {
    asked_ = tuner_.length(0, limit);
    builder.ask(asked_);
    if (asked_ > 0) model_.propose(anchor, asked_, builder);
    drafted_ = builder.size();
  }
  void forget() override { model_.forget(); }

  std::vector<Times> took;  // by the rounds in which it was asked

 private:
  ModelDraft model_;
  Tuner tuner_;
  Learn learn_;
  Machine machine_;
  int asked_ = -1;
  int drafted_ = 0;
};

/// A real number as a trace states it.
std::string stated(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%a", value);
  return digits;
}

TraceReport replayed(const std::string& text) {
  const File file(text);
  return replay(file.path());
}

Decoded of_model(std::uint64_t model_seed, const Rule& rule, Learn way, Machine machine = not_measured) {
  const auto model = make_hash_model({.vocabulary = 6, .levels = 4, .seed = model_seed});
  TunedModel draft(*model, 400, way, machine);
  Decoded run = decoded(draft, rule);
  std::vector<std::string> lines = lines_of(run.text);
  std::size_t round = 0;
  for (std::string& line : lines) {
    Json json = Json::parse(line);
    if (!json.contains("draft_asked")) continue;
    const Times& took = draft.took.at(round);
    run.trace.rounds.at(round++).seconds = took;
    if (!took) continue;
    json["verify_seconds"] = stated(took->verify);
    json["draft_seconds"] = stated(took->draft);
    line = json.dump();
  }
  run.text = sealed(lines);
  return run;
}

/// The first round of a run in which a right tuner, told these times, chooses otherwise; -1: none.
std::int64_t first_other_choice(const Trace& trace, const std::vector<Times>& times) {
  Tuner right(model_costs());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Round& round = trace.rounds[i];
    const int limit = std::min(max, 302 - round.position);
    if (limit < 1) break;
    if (round.proposal.asked != std::vector<int>{right.length(0, limit)}) return static_cast<std::int64_t>(i);
    right.learn(round.proposal.asked, round.proposal.size(), round.accepted, times[i]);
  }
  return -1;
}

std::vector<Times> times_of(const Trace& trace) {
  std::vector<Times> times;
  for (const Round& round : trace.rounds) times.push_back(round.seconds);
  return times;
}

void expect_found_at(const TraceReport& report, std::int64_t round) {
  ASSERT_EQ(report.slower.size(), 1U) << report_text(make_report(report));
  EXPECT_STREQ(report.slower.front().check, "draft_asked");
  EXPECT_EQ(report.slower.front().place.round, round);
  EXPECT_EQ(report.verdict(), ReportVerdict::perf_regression);
}

TEST(DraftAsked, ByARightTunerFollowsFromTheCostsAndRoundsOfTheTrace) {
  std::set<std::vector<int>> choices;
  long cut = 0;
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const std::uint64_t model : {agrees, differs}) {
      for (const bool stops : {false, true}) {
        const Decoded run = of_chain(model, *rule, stops ? std::vector<Token>{0} : std::vector<Token>{});
        const TraceReport report = replayed(run.text);
        EXPECT_TRUE(report.slower.empty()) << report_text(make_report(report));
        EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(make_report(report));
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

TEST(DraftAsked, ByARightTunerFollowsFromTheTimesOfTheTraceWhateverElseItsMachineDoes) {
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const std::uint64_t model : {agrees, differs}) {
      for (const Machine machine : {quiet, busy}) {
        const Decoded run = of_model(model, *rule, learn, machine);
        const TraceReport report = replayed(run.text);
        EXPECT_TRUE(report.slower.empty()) << report_text(make_report(report));
        const std::vector<Times> none(run.trace.rounds.size());
        EXPECT_GE(first_other_choice(run.trace, none), 0) << "the times decide something";
      }
    }
  }
}

TEST(DraftAsked, ByATunerThatLearnsSomethingElseIsAPerfRegressionFromItsFirstOtherChoiceOn) {
  const auto expect_found = [](Learn way, std::vector<Machine> machines, const Rule& rule) {
    long found = 0;
    for (const Machine machine : machines) {
      const Decoded run = of_model(differs, rule, way, machine);
      const std::int64_t first = first_other_choice(run.trace, times_of(run.trace));
      const TraceReport report = replayed(run.text);
      if (first < 0) {
        EXPECT_TRUE(report.slower.empty()) << report_text(make_report(report));
      } else {
        expect_found_at(report, first);
        ++found;
      }
    }
    EXPECT_GT(found, 0) << "the mutant does what a right tuner does";
  };
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const Learn way : {learn_nothing, count_the_bonus_token, take_all_as_accepted}) {
      expect_found(way, {not_measured}, *rule);
      expect_found(way, {quiet, busy}, *rule);
    }
    for (const Learn way : {learn_no_times, count_the_proposal_twice, exchange_the_times}) {
      expect_found(way, {quiet, busy}, *rule);
    }
  }
}

TEST(DraftAskedSlow, OtherTimesInATraceAreFoundWhereTheyChangeAChoice) {
  const Decoded run = of_model(differs, rejection, learn, quiet);
  const std::vector<std::string> lines = lines_of(run.text);
  long found = 0;
  std::size_t round = 0;  // of those with times
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const Json json = Json::parse(lines[at]);
    if (!json.contains("verify_seconds") || round++ % 4 != 1) continue;
    for (const char* const field : {"verify_seconds", "draft_seconds"}) {
      for (const double by : {0.1, 10.0}) {
        std::vector<Times> times = times_of(run.trace);
        double& seconds = *field == 'v' ? times[round - 1]->verify : times[round - 1]->draft;
        seconds *= by;
        std::vector<std::string> tampered = lines;
        Json other = json;
        other[field] = stated(seconds);
        tampered[at] = other.dump();
        const std::int64_t first = first_other_choice(run.trace, times);
        const TraceReport report = replayed(sealed(tampered));
        if (first < 0) {
          EXPECT_TRUE(report.slower.empty()) << report_text(make_report(report));
        } else {
          expect_found_at(report, first);
          ++found;
        }
      }
    }
  }
  EXPECT_GT(found, 5);
}

TEST(DraftAskedSlow, AnyOtherNumberOrListInATraceIsFoundInItsRound) {
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
    longer["draft_asked"].push_back(max + 1);  // 1 may be what another draft would be asked for
    others.push_back(longer);
    Json without = round;
    without.erase("draft_asked");
    others.push_back(without);
    Json cut = round;
    cut["draft_cut"] = max;
    others.push_back(cut);
    for (const Json& other : others) {
      std::vector<std::string> tampered = lines;
      tampered[at] = other.dump();
      const TraceReport report = replayed(sealed(tampered));
      ASSERT_EQ(report.slower.size(), 1U) << other.dump() << report_text(make_report(report));
      EXPECT_EQ(report.slower.front().place.line, static_cast<long>(at + 1));
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
    const TraceReport report = replayed(sealed(lines));
    EXPECT_TRUE(report.slower.empty());
    EXPECT_THAT(report.unread, testing::Contains(testing::HasSubstr("draft_costs"))) << field;
  }
}

}  // namespace
}  // namespace draftproof::spectrace::draft_asked_test
