// SPDX-License-Identifier: MIT
// A right engine is never accused, whatever its trace leaves out and on whatever that depends; and its faults are found
// where it leaves out nothing.
#include "tests/spectrace/right_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/spectrace/support.h"

namespace draftproof::spectrace::right_engine_test {
namespace {

using testing::HasSubstr;

/// May be called by several threads.
TraceReport report_of_text(const std::string& text) {
  static std::mutex naming;
  std::optional<File> file;
  {
    const std::lock_guard lock(naming);
    file.emplace();
  }
  file->put(text);
  return replay(file->path(), {});
}

/// Calls `work` with 0 to count - 1, on every core.
void for_each(int count, const std::function<void(int)>& work) {
  std::atomic<int> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (int at = next++; at < count; at = next++) work(at);
    });
  }
}
std::string shown(const TraceReport& report) { return report_text(make_report(report)); }

std::vector<Written> forms() {
  std::vector<Written> list;
  for (const char* rule : {"rejection", "matching"}) {
    const auto add = [&](const char* name, auto change) {
      Written how{.name = name, .rule = rule};
      change(how);
      list.push_back(how);
    };
    add("everything", [](Written&) {});
    add("a mask", [](Written& how) { how.masked = true; });
    for (const Where where : {Where::rejections, Where::acceptances, Where::long_sequences, Where::one_in_two}) {
      add("rows sometimes", [&](Written& how) { how.p_rows = how.q_rows = where; });
      add("rows of q sometimes", [&](Written& how) { how.q_rows = where; });
      add("rows of p sometimes, no decisions", [&](Written& how) {
        how.p_rows = where;
        how.accept_u = how.next_u = how.draft_u = how.weights = Where::nowhere;
      });
      add("draft tokens sometimes", [&](Written& how) { how.draft_tokens = where; });
      add("coins sometimes", [&](Written& how) { how.accept_u = how.next_u = how.draft_u = where; });
      add("coins of the draft sometimes", [&](Written& how) { how.draft_u = where; });
      add("coins of the next token sometimes", [&](Written& how) { how.next_u = where; });
      add("p and q sometimes, no coins", [&](Written& how) {
        how.weights = where;
        how.p_rows = how.q_rows = how.accept_u = how.next_u = how.draft_u = Where::nowhere;
      });
    }
    add("coins of accepted tokens", [](Written& how) { how.next_u = Where::nowhere; });
    for (const Stops stops : {Stops::hidden, Stops::hidden_unwritten, Stops::undeclared}) {
      add("hidden stops", [&](Written& how) { how.stops = stops; });
      add("hidden stops, tokens only", [&](Written& how) {
        how.stops = stops;
        how.draft_tokens = Where::nowhere;
      });
      add("hidden stops, rewinds", [&](Written& how) {
        how.stops = stops;
        how.rewinds = true;
      });
      add("hidden stops, top log-probabilities", [&](Written& how) {
        how.stops = stops;
        how.top = true;
        how.p_rows = how.q_rows = Where::nowhere;
      });
    }
    add("rewinds", [](Written& how) { how.rewinds = true; });
    add("top log-probabilities with the emitted token", [](Written& how) {
      how.top = true;
      how.p_rows = how.q_rows = Where::nowhere;
    });
    if (rule == std::string("matching")) {
      add("a draft seeded anew in each round", [](Written& how) { how.reseeded = true; });
    }
  }
  return list;
}

/// Every form is written once in reals and once in integers; `every`: only one in so many of these.
void none_is_accused(long tokens, int every) {
  const std::vector<Written> all = forms();
  for_each(2 * static_cast<int>(all.size()) / every, [&](int at) {
    const int number = at * every;
    const Written& how = all[static_cast<std::size_t>(number / 2)];
    const bool reals = (number + number / 2 / every) % 2 == 0;
    RightEngine engine(how, reals, 3 + static_cast<std::uint64_t>(number));
    const TraceReport report = report_of_text(engine.trace(tokens));
    const std::string what = std::string(how.name) + ", " + how.rule + (reals ? ", reals, " : ", integers, ") +
                             std::to_string(number) + "\n";
    EXPECT_EQ(report.invalid, "") << what;
    EXPECT_TRUE(report.findings.empty()) << what << shown(report);
    EXPECT_NE(report.verdict(), ReportVerdict::bug_stat) << what << shown(report);
  });
}

TEST(RightEngine, IsNotAccusedInAnyForm) { none_is_accused(400, 4); }
TEST(RightEngineSlow, IsNotAccusedInAnyFormAfterSixThousandTokens) { none_is_accused(6000, 2); }
TEST(RightEngineSweep, IsNotAccusedInAnyFormAfterThirtyThousandTokens) { none_is_accused(30000, 2); }

TEST(RightEngine, PassesWhereEverythingIsStatedAndHiddenStopsAreDeclared) {
  for (const char* rule : {"rejection", "matching"}) {
    for (const Stops stops : {Stops::written, Stops::hidden, Stops::hidden_unwritten}) {
      const Written how{.name = "", .rule = rule, .stops = stops};
      const TraceReport report = report_of_text(RightEngine(how, true, 5).trace(1500));
      EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << rule << static_cast<int>(stops) << shown(report);
    }
  }
}

TEST(RightEngine, IsFoundWrongWhereEverythingIsStatedWithStopsWrittenOrHidden) {
  for (const Stops stops : {Stops::written, Stops::hidden, Stops::hidden_unwritten}) {
    const Written how{.name = "",
                      .accept_u = Where::nowhere,
                      .next_u = Where::nowhere,
                      .draft_u = Where::nowhere,
                      .stops = stops,
                      .residual_is_p = Where::everywhere};
    const TraceReport report = report_of_text(RightEngine(how, true, 5).trace(3000));
    EXPECT_EQ(report.verdict(), ReportVerdict::bug_proven) << "a rejected token is emitted at times";
    ASSERT_TRUE(report.token_test.has_value());
    EXPECT_TRUE(report.token_test->alarm) << static_cast<int>(stops) << shown(report);
  }
}

TEST(RightEngine, OneStreamBehindTheDefaultKeyIsNamed) {
  const TraceReport report = report_of_text(RightEngine({.name = "", .one_stream = true}, true, 5).trace(500));
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << shown(report);
  EXPECT_THAT(shown(report), HasSubstr("No sequence states rng_key, so all have the default, 0: one stream"));
}

TEST(RightEngine, RoundsThatLackRowsAreNamedAndUndecided) {
  const Written how{.name = "", .p_rows = Where::rejections, .q_rows = Where::rejections};
  const TraceReport report = report_of_text(RightEngine(how, true, 5).trace(1500));
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << shown(report);
  EXPECT_THAT(shown(report), HasSubstr("p is not known of "));
  EXPECT_THAT(shown(report), HasSubstr("tokens (lines "));
  EXPECT_THAT(shown(report), HasSubstr("rows of q are not stated on lines "));
}

TEST(RightEngine, ASequenceWithoutAnEndLineLeavesTheOthersTheirVerdict) {
  std::vector<std::string> lines = lines_of(RightEngine({.name = ""}, true, 5).trace(1500));
  lines.pop_back();
  const TraceReport report = report_of_text(joined(lines));
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << shown(report);
  EXPECT_THAT(shown(report), HasSubstr(" has no end line: the run was interrupted; the verdict is about the "));
}

/// One null trace in a hundred may have evidence of a hundred, whatever rows and coins it states.
TEST(RightEngineSlow, AThousandNullTracesHaveNoMoreEvidenceThanTheyMay) {
  const std::vector<Written> all = forms();
  std::array<std::atomic<int>, 5> above{};  // by exponent of 10, over all games
  for_each(1000, [&](int i) {
    RightEngine engine(all[static_cast<std::size_t>(i) % all.size()], i % 2 == 0, 1000 + static_cast<std::uint64_t>(i));
    const TraceReport report = report_of_text(engine.trace(600));
    EXPECT_TRUE(report.findings.empty()) << shown(report);
    EXPECT_NE(report.verdict(), ReportVerdict::bug_stat) << shown(report);
    double max = report.token_test ? report.token_test->e_value : 1;
    for (const Game& game : report.games) max = std::max(max, game.e_value);
    for (std::size_t exponent = 1; exponent < above.size(); ++exponent) {
      above[exponent] += max >= std::pow(10.0, static_cast<double>(exponent)) ? 1 : 0;
    }
  });
  // Of six games each, at most 6 / 100 and 6 / 1000 are expected; these bounds are exceeded once in 10^6.
  EXPECT_LT(above[2], 110);
  EXPECT_LT(above[3], 22);
  EXPECT_LT(above[4], 8);
  std::printf("null traces with evidence of 10, 100, 1000, 10000: %d %d %d %d\n", above[1].load(), above[2].load(),
              above[3].load(), above[4].load());
}

}  // namespace
}  // namespace draftproof::spectrace::right_engine_test
