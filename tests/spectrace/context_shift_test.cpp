// SPDX-License-Identifier: MIT
// Context shifts in traces: the replay goes on behind them, a shift that did not happen so is found, and one that
// cannot have happened is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracle/spectrace/reader.h"
#include "oracle/spectrace/replay.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace::context_shift_test {
namespace {

using testing::HasSubstr;

Case shifted(const Rule& rule, const Sampling& sampling) {
  return {.name = rule.name, .rule = &rule, .sampling = sampling, .context_shift = ContextShift{8, 2, 3}};
}

bool is_shift(const std::string& line) { return line.find("\"type\":\"context_shift\"") != std::string::npos; }

std::vector<std::string> trace_of(Recorded& recorded) {
  return lines_of(recorded.text(shifted(rejection, {.temperature = 1})));
}

/// The lines with this one after the n-th shift replaced; "" removes it.
std::vector<std::string> with_shift(std::vector<std::string> lines, int number, const std::string& line) {
  for (auto at = lines.begin(); at != lines.end(); ++at) {
    if (!is_shift(*at) || number-- > 0) continue;
    if (line.empty()) {
      lines.erase(at);
    } else {
      *at = line;
    }
    break;
  }
  return lines;
}

TEST(ContextShift, IsReplayedWithAndWithoutTheTarget) {
  Recorded recorded;
  for (const Rule* const rule : {&matching, &rejection}) {
    for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1}, every_parameter()}) {
      const File file(recorded.text(shifted(*rule, sampling)));
      for (const bool with_target : {true, false}) {
        const TraceReport report = with_target ? replay(file.path(), recorded.target()) : replay(file.path());
        EXPECT_EQ(report.verdict(), with_target ? ReportVerdict::pass_exact : ReportVerdict::pass_stat)
            << report_text(make_report(report));
        EXPECT_EQ(report.examined.shifts, 6);  // before tokens 8, 11, ..., 23
        EXPECT_EQ(report.examined.rows > 0, with_target);
        EXPECT_THAT(report_text(make_report(report)), HasSubstr("context_shifts 6"));
      }
    }
  }
}

TEST(ContextShift, ASuspectThatCannotFollowItIsLeftBehindAndTheTargetIsNot) {
  Recorded recorded;
  const File file(recorded.text(shifted(rejection, {.temperature = 1})));
  const TraceReport alone = replay(file.path(), recorded.target());
  for (const bool recurrent : {false, true}) {
    TraceTarget target = recorded.target();
    target.suspects.push_back(
        {"another", make_hash_model({.vocabulary = 6, .levels = 4, .seed = 6, .recurrent = recurrent})});
    const TraceReport report = replay(file.path(), target);
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_exact) << report_text(make_report(report));
    EXPECT_EQ(report.examined.rows, alone.examined.rows);
  }
}

TEST(ContextShift, ThatTheTraceDoesNotStateOrStatesOtherwiseIsFoundInTheRowsBehindIt) {
  Recorded recorded;
  const std::vector<std::string> lines = trace_of(recorded);
  for (const std::string& line :
       {std::string(), std::string(R"({"type":"context_shift","tokens_read":14,"keep":1,"discard":3})"),
        std::string(R"({"type":"context_shift","tokens_read":14,"keep":2,"discard":2})")}) {
    std::vector<std::string> changed = with_shift(lines, 2, line);
    ASSERT_NE(changed, lines);
    const bool as_many = line.ends_with("\"discard\":3}");  // positions dropped
    const File with_lengths(sealed(changed));
    const TraceReport by_length = replay(with_lengths.path());
    EXPECT_EQ(by_length.verdict(), as_many ? ReportVerdict::pass_stat : ReportVerdict::bug_proven);
    if (!as_many) {
      EXPECT_EQ(by_length.findings.front().check, std::string("target_held"));
    }
    for (std::string& round : changed) {
      Json json = Json::parse(round);
      for (const char* const field : {"target_held", "draft_held", "draft_anchor"}) json.erase(field);
      round = json.dump();
    }
    const File file(sealed(changed));
    const TraceReport held = replay(file.path(), recorded.target());
    EXPECT_EQ(held.verdict(), ReportVerdict::bug_proven) << line << "\n" << report_text(make_report(held));
    ASSERT_FALSE(held.findings.empty());
    EXPECT_EQ(held.findings.front().check, std::string("p_row"));
    EXPECT_GE(held.findings.front().place.position, 14);
    EXPECT_EQ(replay(file.path()).verdict(), ReportVerdict::pass_stat);  // p as stated does not show it
  }
}

TEST(ContextShift, ThatCannotHaveHappenedIsNoTrace) {
  Recorded recorded;
  const std::vector<std::string> lines = trace_of(recorded);
  const std::pair<const char*, const char*> bad[] = {
      {R"({"type":"context_shift","tokens_read":13,"keep":2,"discard":3})", "field tokens_read: after"},
      {R"({"type":"context_shift","tokens_read":15,"keep":2,"discard":3})", "14 tokens of the text can have been read"},
      {R"({"type":"context_shift","tokens_read":14,"keep":5,"discard":4})",
       "field discard: keeps 5 and drops 4 of the cache's 8 positions"},
      {R"({"type":"context_shift","tokens_read":14,"keep":-1,"discard":3})", "keep"},
      {R"({"type":"context_shift","tokens_read":14,"keep":2,"discard":0})", "discard"},
      {R"({"type":"context_shift","tokens_read":14,"keep":2})", "discard"},
      {R"({"type":"context_shift","tokens_read":14,"keep":2,"discard":3,"kept":1})", "kept"},
      {R"({"type":"context_shift","sequence":5,"tokens_read":14,"keep":2,"discard":3})", "sequence 5 is not open here"},
  };
  for (const auto& [line, why] : bad) {
    const File file(sealed(with_shift(lines, 2, line)));
    const TraceReport report = replay(file.path(), recorded.target());
    EXPECT_EQ(report.verdict(), ReportVerdict::invalid_trace) << line;
    EXPECT_THAT(report.invalid, HasSubstr(why)) << line;
  }
}

TEST(ContextShift, OfATargetThatCannotShiftLeavesTheRowsBehindItUndecided) {
  Recorded recorded;
  std::vector<std::string> lines = trace_of(recorded);
  for (std::string& line : lines) {
    Json json = Json::parse(line);
    json.erase("state_digest");  // the state of this target is another one
    line = json.dump();
  }
  const File file(sealed(lines));
  const auto recurrent = make_hash_model({.vocabulary = 6, .levels = 4, .seed = 5, .recurrent = true});
  TraceTarget target = recorded.target();
  target.computing_in = [&](const std::string&) {
    return std::shared_ptr<Model>(std::shared_ptr<Model>(), recurrent.get());
  };
  const TraceReport report = replay(file.path(), target);
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << report_text(make_report(report));
  EXPECT_THAT(report_text(make_report(report)),
              HasSubstr("rows after a context shift are not held to the target, whose cache cannot be shifted so: "
                        "layer 0 keeps one state of the whole text"));
  EXPECT_GT(report.examined.rows, 0);  // those before it
}

}  // namespace
}  // namespace draftproof::spectrace::context_shift_test
