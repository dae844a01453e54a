// SPDX-License-Identifier: MIT
// Decoders that are not ours: a correct one has no findings, whatever its trace states or leaves out; a wrong one is
// found by what its trace states; numbers that are only stated never count as proved.
#include "tests/spectrace/foreign_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace draftproof::spectrace::foreign_test {
namespace {

using testing::HasSubstr;

TraceReport report_of_text(const std::string& text, const TraceTarget& target = {}) {
  const File file(text);
  return replay(file.path(), target);
}

TraceReport make_report(const Foreign& how, std::uint64_t seed = 7) {
  return report_of_text(ForeignEngine(how, seed).trace());
}

std::string shown(const TraceReport& report) { return report_text(make_report(report)); }

std::string name_of(const Foreign& how) {
  return how.rule + (how.reals ? ", reals" : ", integers") + ", generator '" + how.generator + "'" +
         (how.keys ? ", keys" : "") + (how.rows ? "" : ", no rows") + (how.decisions ? "" : ", no decisions") +
         (how.temperature == 0 ? ", greedy" : "") + (how.grammar_end ? ", grammar" : "") +
         (how.drafts_dropped ? ", dropped" : "") + (how.null_where_p_is_0 ? ", null" : "");
}

/// Every kind of correct decoder.
std::vector<Foreign> controls() {
  std::vector<Foreign> list;
  for (const char* rule : {"rejection", "matching", "block", "lossy:typical", "greedy"}) {
    for (const bool reals : {true, false}) {
      for (const char* generator : {"", "mt19937", our_generator}) {
        for (const float temperature : {1.0F, 0.0F}) {
          if (rule == std::string("greedy") && temperature != 0) continue;
          for (const bool more : {false, true}) {
            Foreign how;
            how.rule = rule;
            how.reals = reals;
            how.generator = generator;
            how.temperature = temperature;
            how.keys = how.grammar_end = how.drafts_dropped = how.null_where_p_is_0 = more;
            list.push_back(how);
            how.decisions = false;
            if (more) list.push_back(how);
          }
        }
      }
    }
  }
  return list;
}

TEST(Foreign, ACorrectDecoderHasNoFindingsAndGetsNoBetterVerdictThanItsTraceSupports) {
  std::map<std::string, int> verdicts;
  int all_replayed = 0;
  for (const Foreign& how : controls()) {
    const TraceReport report = make_report(how);
    EXPECT_EQ(report.invalid, "") << name_of(how);
    EXPECT_TRUE(report.findings.empty()) << name_of(how) << "\n" << shown(report);
    const ReportVerdict verdict = report.verdict();
    ++verdicts[draftproof::name_of(verdict)];
    EXPECT_NE(verdict, ReportVerdict::bug_stat) << name_of(how) << "\n" << shown(report);
    const bool unproved_coins = how.temperature > 0 && how.generator != our_generator;
    if (unproved_coins || how.grammar_end) {
      EXPECT_NE(verdict, ReportVerdict::pass_exact) << name_of(how) << "\n" << shown(report);
    }
    if (how.rule.starts_with("lossy")) {
      EXPECT_EQ(verdict, ReportVerdict::undecided) << name_of(how);
    } else if (how.rows && how.temperature > 0) {
      EXPECT_EQ(verdict, ReportVerdict::pass_stat) << name_of(how) << shown(report);
    }
    all_replayed += report.missing.empty() && report.unproved.empty();
  }
  EXPECT_GE(all_replayed, 4) << "integers whose coins are computed again";
  EXPECT_GE(verdicts["PASS_STAT"], 20);
}

struct Caught {
  Wrong wrong;
  const char* what;
  bool decisions;  // else rows and tokens alone
  bool rows;
  const char* by;  // a finding, or the game that alarms
};

const Caught faults[] = {
    {Wrong::coin_of_0_accepts, "u = 0 and all stand", true, true, "coins"},
    {Wrong::coin_of_0_accepts, "the same, without rows", true, false, "coins"},
    {Wrong::every_coin_0, "every coin of the file is 0", true, true, "coins"},
    {Wrong::one_coin_a_round, "one u for all draft tokens of a round", true, true, "coins"},
    {Wrong::coins_again, "the same coins again every 40 rounds", true, true, "coins"},
    {Wrong::coin_after_the_fact, "u is drawn so that nothing falls", true, true, "acceptance"},
    {Wrong::coin_after_the_fact, "the same, without coins", false, true, "acceptance"},
    {Wrong::draft_is_best, "drafts are the best of Q, the coins fit", true, true, "draft tokens"},
    {Wrong::stale_token, "the draft token rejected last is said again", false, true, "distribution"},
    {Wrong::repeats_last, "the last token is said again", false, true, "distribution"},
    {Wrong::row_of_another_context, "rows of another context", false, true, "distribution"},
    {Wrong::residual_is_p, "q is not taken away", false, true, "distribution"},
};

TEST(Foreign, EveryFaultIsFoundInRealsAndInIntegers) {
  for (const bool reals : {true, false}) {
    for (const Caught& fault : faults) {
      Foreign how;
      how.reals = reals;
      how.wrong = fault.wrong;
      how.decisions = fault.decisions;
      how.rows = fault.rows;
      how.rounds = 700;
      const TraceReport report = make_report(how);
      const std::string what = std::string(fault.what) + (reals ? ", reals\n" : ", integers\n");
      EXPECT_TRUE(report.verdict() == ReportVerdict::bug_stat || report.verdict() == ReportVerdict::bug_proven)
          << what << shown(report);
      const bool distribution = report.token_test && report.token_test->alarm;
      const bool game = std::any_of(report.games.begin(), report.games.end(),
                                    [&](const Game& each) { return each.alarm && each.name == fault.by; });
      const bool found = std::any_of(report.findings.begin(), report.findings.end(), [&](const TraceFinding& each) {
        return each.check == std::string_view(fault.by);
      });
      EXPECT_TRUE(game || found || (distribution && fault.by == std::string("distribution"))) << what << shown(report);
    }
  }
}

/// Returns a decoder that draws by race and states rows and tokens.
Foreign racing(Wrong wrong) {
  Foreign how;
  how.race = true;
  how.decisions = false;
  how.rounds = 3000;
  how.wrong = wrong;
  return how;
}

TEST(Foreign, DrawsByRaceAreRightAndNoTokenOutsideOfTheRowMayWin) {
  for (const char* const rule : {"rejection", "matching"}) {
    Foreign control = racing(Wrong::none);
    control.rule = rule;
    for (const bool peaked : {false, true}) {
      control.peaked = peaked;
      const TraceReport report = make_report(control);
      EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << rule << shown(report);
      EXPECT_TRUE(report.findings.empty()) << rule << shown(report);
    }
  }
  const TraceReport unbounded = make_report(racing(Wrong::race_unbounded));
  EXPECT_EQ(unbounded.verdict(), ReportVerdict::bug_proven) << shown(unbounded);
}

TEST(Foreign, ThreeHundredCopiesOfOneLineAreNotEvidenceOfRandomness) {
  for (const bool reals : {true, false}) {
    Foreign how;
    how.reals = reals;
    how.rounds = 1;
    std::vector<std::string> lines = lines_of(ForeignEngine(how, 7).trace());
    std::string text = lines[0] + "\n";
    Json step = Json::parse(lines[1]);
    int position = 1;
    for (int n = 0; n < 300; ++n) {
      step["round"] = n;
      step["position"] = position;
      position += static_cast<int>(step["emitted"].size());
      text += step.dump() + "\n";
    }
    const TraceReport report = report_of_text(text + lines[2] + "\n");
    EXPECT_EQ(report.verdict(), ReportVerdict::bug_stat) << shown(report);
    EXPECT_THAT(shown(report), HasSubstr("coins"));
  }
}

TEST(Foreign, SequencesThatBeginWithTheSameRandomNumbersAreNoFurtherEvidence) {
  Foreign how;
  how.rounds = 100;
  const std::vector<std::string> lines = lines_of(ForeignEngine(how, 7).trace());
  Json header = Json::parse(lines[0]);
  Json opening = {{"type", "sequence"},
                  {"sequence", 0},
                  {"temperature", header["temperature"]},
                  {"prompt", header["prompt"]},
                  {"stop_tokens", Json::array()}};
  for (const char* field : {"temperature", "prompt", "stop_tokens"}) header.erase(field);
  std::string text = header.dump() + "\n";
  for (int s = 0; s < 5; ++s) {
    opening["sequence"] = s;
    text += opening.dump() + "\n";
    for (std::size_t i = 1; i < lines.size(); ++i) {
      Json line = Json::parse(lines[i]);
      line["sequence"] = s;
      text += line.dump() + "\n";
    }
  }
  const TraceReport report = report_of_text(text);
  EXPECT_TRUE(report.findings.empty()) << shown(report);
  EXPECT_NE(report.verdict(), ReportVerdict::bug_stat) << "every request seeds its generator alike\n" << shown(report);
  EXPECT_EQ(report.token_test->tokens, report_of_text(joined(lines)).token_test->tokens);
}

/// Returns a correct trace after these changes to its header and rounds.
std::string changed(const Foreign& how, const std::function<void(Json&)>& header,
                    const std::function<void(Json&)>& step) {
  std::vector<std::string> lines = lines_of(ForeignEngine(how, 7).trace());
  const auto edit = [](std::string& line, const std::function<void(Json&)>& change) {
    if (!change) return;
    Json json = Json::parse(line);
    change(json);
    line = json.dump();
  };
  edit(lines.front(), header);
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) edit(lines[i], step);
  return joined(lines);
}

std::string first_check(const TraceReport& report) {
  if (!report.invalid.empty()) return "invalid: " + report.invalid;
  return report.findings.empty() ? "" : report.findings.front().check;
}

TEST(Foreign, AnImpossibleValueIsAFindingAndNotAnInvalidTrace) {
  Foreign how;
  how.rounds = 3;
  const auto check = [&](const std::function<void(Json&)>& step) {
    return first_check(report_of_text(changed(how, {}, step)));
  };
  EXPECT_EQ(check([](Json& step) { step["q_draft"][0] = "nan"; }), "number");
  EXPECT_EQ(check([](Json& step) { step["p_draft"][0] = "-nan"; }), "number");
  EXPECT_EQ(check([](Json& step) { step["q_draft"][0] = "inf"; }), "number");
  EXPECT_EQ(check([](Json& step) { step["accept_u"][0] = "0x1p+0"; }), "number");
  EXPECT_EQ(check([](Json& step) { step["p_rows"][0][1] = "nan"; }), "number");
  EXPECT_EQ(check([](Json& step) { step["draft_tokens"][0] = -1; }), "token");
  EXPECT_EQ(check([](Json& step) { step["draft_tokens"][1] = 8; }), "token");
  EXPECT_EQ(check([](Json& step) { step["emitted"].back() = -1; }), "token");
  EXPECT_THAT(shown(report_of_text(changed(how, {}, [](Json& step) { step["draft_tokens"][0] = -1; }))),
              HasSubstr("2 more of this kind, in lines 3, 4"));
}

TEST(Foreign, DeclaredSamplingIsCheckedAgainstStatedRowsWithoutATarget) {
  for (const bool reals : {true, false}) {
    Foreign how;
    how.reals = reals;
    how.rounds = 30;
    const auto check = [&](const std::function<void(Json&)>& header, const std::function<void(Json&)>& step = {}) {
      return first_check(report_of_text(changed(how, header, step)));
    };
    EXPECT_EQ(check({}), "");
    EXPECT_EQ(check([](Json& header) { header["temperature"] = "0x0p+0"; }), "declared");
    EXPECT_EQ(check([](Json& header) { header["top_k"] = 1; }), "declared");
    EXPECT_EQ(check([](Json& header) { header["top_k"] = 8; }), "");
    // `logits_of`: the logit of a token with this probability.
    const auto top = [](
                         bool right, double (*logit_of)(double) = [](double p) { return std::log(p); }) {
      return [right, logit_of](Json& step) {
        const Json rows = step["p_rows"];
        for (const Json& row : rows) {
          std::vector<std::pair<double, int>> ranked;
          for (std::size_t i = 0; i < row.size(); i += 2) {
            const double weight = row[i + 1].is_string() ? std::strtod(row[i + 1].get<std::string>().c_str(), nullptr)
                                                         : row[i + 1].get<double>();
            ranked.emplace_back(-weight, row[i].get<int>());
          }
          std::sort(ranked.begin(), ranked.end());
          double sum = 0;
          for (const auto& [weight, token] : ranked) sum -= weight;
          const auto logit = [&](std::size_t place) {
            char digits[40];
            std::snprintf(digits, sizeof digits, "%a", logit_of(-ranked[place].first / sum));
            return std::string(digits);
          };
          if (ranked.size() == 1) ranked.push_back(ranked[0]);
          const int best = right ? ranked[0].second : ranked.back().second;
          step["top_logits"].push_back({best, logit(0), ranked[1].second, logit(1)});
        }
      };
    };
    EXPECT_EQ(check({}, top(true)), "");
    EXPECT_EQ(check({}, top(false)), "declared");
    // The row is the softmax of the logits: not of probabilities, and at the declared temperature.
    const auto of_half = top(true, [](double p) { return std::log(p) / 2; });
    EXPECT_EQ(check({}, of_half), "declared");
    EXPECT_EQ(check([](Json& header) { header["temperature"] = "0x1p-1"; }, of_half), "");
    EXPECT_EQ(check({}, top(true, [](double p) { return p; })), "declared") << "softmax of probabilities";
    EXPECT_EQ(check([](Json& header) { header["repeat_penalty"] = "0x1p+1"; }, of_half), "") << "penalties change it";
  }
}

/// At temperature 1 without cuts the stated row is the softmax of the logits that log-probabilities are of.
TEST(Foreign, LogProbabilitiesOfTheRawLogitsAreHeldToTheRowThatFollowsFromThem) {
  for (const bool reals : {true, false}) {
    Foreign how;
    how.reals = reals;
    how.rounds = 20;
    const auto logprobs = [](double more) {
      return [more](Json& step) {
        Json stated = Json::array();  // a new field moves the others, and `row` is in one
        for (std::size_t i = 0; i < step["emitted"].size(); ++i) {
          const Json& row = step["p_rows"][i];
          for (std::size_t k = 0; k < row.size(); k += 2) {
            if (row[k] != step["emitted"][i]) continue;
            const double p = row[k + 1].is_string() ? std::strtod(row[k + 1].get<std::string>().c_str(), nullptr)
                                                    : row[k + 1].get<double>() * 0x1p-52;
            char digits[40];
            std::snprintf(digits, sizeof digits, "%a", std::min(std::log(p) + more, 0.0));
            stated.push_back(digits);
          }
        }
        step["logprobs"] = std::move(stated);
      };
    };
    const auto check = [&](const std::function<void(Json&)>& header, double more) {
      return first_check(report_of_text(changed(how, header, logprobs(more))));
    };
    EXPECT_EQ(check({}, 0), "");
    EXPECT_EQ(check({}, -0.1), "log_probability");
    EXPECT_EQ(check([](Json& header) { header["temperature"] = "0x1p-1"; }, -0.1), "") << "of another distribution";
    EXPECT_EQ(check([](Json& header) { header["top_k"] = 8; }, -0.1), "") << "of another distribution";
  }
}

/// vLLM and SGLang count accepted draft tokens after the text is cut.
TEST(Foreign, AcceptedThatIsCountedAfterTheEndOfTheTextIsFoundWithItsLikelyCause) {
  const auto trace = [](int accepted, const char* next_from) {
    const Json header = {{"type", "header"}, {"schema", "spectrace/2"}, {"engine", "e"}, {"vocabulary", 8},
                         {"rule", "greedy"}, {"temperature", "0x0p+0"}, {"prompt", {1}}, {"stop_tokens", {3}}};
    Json best = Json::array();
    for (const int token : {2, 3, 4, 5}) best.push_back({token, "0x1p+1", 0, "0x1p+0"});
    best.erase(best.begin() + accepted + 1, best.end());
    const Json round = {{"type", "round"},           {"round", 0},           {"position", 1},
                        {"draft_tokens", {2, 3, 4}}, {"accepted", accepted}, {"next_from", next_from},
                        {"emitted", {2, 3}},         {"top_logits", best}};
    return header.dump() + "\n" + round.dump() + "\n{\"type\":\"end\",\"reason\":\"stop\"}\n";
  };
  const TraceReport wrong = report_of_text(trace(2, "greedy"));
  EXPECT_EQ(first_check(wrong), "acceptance") << shown(wrong);
  EXPECT_THAT(shown(wrong), HasSubstr("`accepted` counts every draft token that the rule accepts"));
  EXPECT_EQ(first_check(report_of_text(trace(3, "greedy"))), "");
}

/// A greedy text is no random draw, whatever temperature and log-probabilities the trace states.
TEST(Foreign, GreedyTokensAreNotBetOnWithLogProbabilities) {
  std::string text = Json({{"type", "header"},
                           {"schema", "spectrace/2"},
                           {"engine", "e"},
                           {"vocabulary", 8},
                           {"rule", "greedy"},
                           {"temperature", "0x1p+0"},
                           {"prompt", {1}}})
                         .dump() +
                     "\n";
  for (int n = 0; n < 400; ++n) {
    text += Json({{"type", "round"},
                  {"round", n},
                  {"position", 1 + n},
                  {"emitted", {2}},
                  {"top_logprobs", {{2, "-0x1.62e42fefa39efp-1", 3, "-0x1.62e42fefa39efp+0"}}}})
                .dump() +
            "\n";
  }
  const TraceReport report = report_of_text(text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n");
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << shown(report);
}

TEST(Foreign, AFieldThatCannotBeCheckedIsNamed) {
  Foreign how;
  how.rounds = 30;
  const auto with = [&](const char* field, const Json& value) {
    return shown(report_of_text(changed(how, {}, [&](Json& step) { step[field] = value; })));
  };
  const auto prints = [&](const char* field) {
    return shown(report_of_text(changed(how, {}, [&](Json& step) {
      const std::size_t rows = step["accepted"].get<std::size_t>() + 1;
      const std::size_t count = field == std::string("q_digests") ? step["draft_tokens"].size() : rows;
      for (std::size_t i = 0; i < count; ++i) step[field].push_back(std::string(32, 'a'));
    })));
  };
  for (const char* field : {"logits_digests", "p_digests", "q_digests"}) {
    EXPECT_THAT(prints(field), HasSubstr("field " + std::string(field) + " is not checked")) << field;
  }
  EXPECT_THAT(with("rng_positions", {{"target", {1}}}), HasSubstr("field rng_positions is not checked"))
      << "beside reals";
  how.rule = "block";
  EXPECT_THAT(with("rng_positions", {{"target", {1}}}), HasSubstr("field accept_u is not checked"));
}

TEST(Foreign, ADraftTokenWithoutWeightInPMayBeRejectedWithoutARandomNumber) {
  for (const bool reals : {true, false}) {
    Foreign how;
    how.reals = reals;
    how.null_where_p_is_0 = true;
    const TraceReport report = make_report(how);
    EXPECT_TRUE(report.findings.empty()) << shown(report);
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << shown(report);
  }
}

TEST(Foreign, ANullRandomNumberForARowOfOneTokenCountsAsStated) {
  Foreign how;
  how.temperature = 0;
  const TraceReport report = make_report(how);
  EXPECT_TRUE(report.missing.empty()) << "no coin decides anything\n" << shown(report);
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << "p is as stated\n" << shown(report);
  const std::string without = changed(how, {}, [](Json& step) { step.erase("next_u"); });
  EXPECT_THAT(shown(report_of_text(without)), HasSubstr("field next_u"));
}

/// Returns a trace of one round, cut or not, and its end.
std::string ended(const Json& opening, const std::string& reason, bool cut) {
  Json header = {{"type", "header"}, {"schema", "spectrace/2"}, {"engine", "e"}, {"vocabulary", 8},
                 {"rule", "greedy"}, {"temperature", "0x0p+0"}, {"prompt", {1}}};
  header.update(opening);
  const Json top = {{2, "0x1p+1", 5, "0x1p+0"}, {3, "0x1p+1", 5, "0x1p+0"}, {4, "0x1p+1", 5, "0x1p+0"}};
  const Json step = {{"type", "round"},        {"round", 0},
                     {"position", 1},          {"width", 3},
                     {"accepted", 2},          {"next_from", "greedy"},
                     {"draft_tokens", {2, 3}}, {"emitted", cut ? Json({2, 3}) : Json({2, 3, 4})},
                     {"top_logits", top}};
  return header.dump() + "\n" + step.dump() + "\n" + Json({{"type", "end"}, {"reason", reason}}).dump() + "\n";
}

TEST(Foreign, AnEndThatNoTokenShowsIsLegalAndNamed) {
  struct Row {
    Json opening;
    const char* reason;
    bool cut;
    const char* check;  // the finding; "": none
    const char* named;  // in the list of what is not proved
  };
  const Json no_stops = {{"stop_tokens", Json::array()}};
  const Row rows[] = {
      {no_stops, "cancelled", false, "", ""},
      {no_stops, "other:grammar", true, "", "'other:grammar'"},
      {no_stops, "other:tool_call", false, "", "'other:tool_call'"},
      {no_stops, "cancelled", true, "", "cancelled"},
      {no_stops, "stop", false, "termination", ""},
      {no_stops, "stop", true, "termination", ""},
      {Json::object(), "stop", false, "", "(field stop_tokens)"},
      {Json::object(), "stop", true, "", "(field stop_tokens)"},
      {{{"stop_tokens", Json::array()}, {"stop_strings", {"END"}}}, "stop", true, "", "(field stop_strings)"},
      {{{"stop_tokens", {7}}, {"stop_token_emitted", false}}, "stop", false, "", "(field stop_token_emitted)"},
      {{{"stop_tokens", Json::array()}, {"max_new_tokens", 3}}, "length", false, "", ""},
      {{{"stop_tokens", Json::array()}, {"max_new_tokens", 3}}, "cancelled", false, "", ""},
      {{{"stop_tokens", Json::array()}, {"max_new_tokens", 2}}, "length", true, "", ""},
      {{{"stop_tokens", Json::array()}, {"max_new_tokens", 9}}, "length", false, "termination", ""},
      {{{"stop_tokens", Json::array()}, {"max_new_tokens", 9}}, "length", true, "termination", ""},
      {{{"stop_tokens", {4}}}, "stop", false, "", ""},
      {{{"stop_tokens", {4}}}, "length", false, "termination", ""},
  };
  for (const Row& row : rows) {
    const TraceReport report = report_of_text(ended(row.opening, row.reason, row.cut));
    EXPECT_EQ(first_check(report), row.check) << row.opening << row.reason << "\n" << shown(report);
    if (row.named[0] != '\0') {
      EXPECT_THAT(shown(report), HasSubstr(row.named));
      EXPECT_NE(report.verdict(), ReportVerdict::pass_exact);
    }
  }
}

TEST(Foreign, ACutRoundThatIsNotTheLastIsAFinding) {
  std::vector<std::string> lines = lines_of(ended({{"stop_tokens", Json::array()}}, "other:grammar", true));
  Json step = Json::parse(lines[1]);
  step["round"] = 1;
  step["position"] = 3;
  lines.insert(lines.begin() + 2, step.dump());
  const TraceReport report = report_of_text(joined(lines));
  EXPECT_EQ(first_check(report), "conservation") << shown(report);
  EXPECT_EQ(report.findings.front().place.line, 2);
}

TEST(Foreign, OneFileMayHoldSequencesOfSeveralRules) {
  std::string text =
      Json({{"type", "header"}, {"schema", "spectrace/2"}, {"engine", "e"}, {"vocabulary", 8}}).dump() + "\n";
  int s = 0;
  for (const char* rule : {"rejection", "matching", "greedy", "block"}) {
    Foreign how;
    how.rule = rule;
    how.rounds = 300;
    how.temperature = how.rule == "greedy" ? 0 : 1;
    const auto lines = lines_of(ForeignEngine(how, 11 + static_cast<std::uint64_t>(s)).trace());
    const Json header = Json::parse(lines[0]);
    text += Json({{"type", "sequence"},
                  {"sequence", s},
                  {"rng_key", s},
                  {"rule", rule},
                  {"temperature", header["temperature"]},
                  {"prompt", {1}},
                  {"stop_tokens", Json::array()}})
                .dump() +
            "\n";
    for (std::size_t i = 1; i < lines.size(); ++i) {
      Json line = Json::parse(lines[i]);
      line["sequence"] = s;
      text += line.dump() + "\n";
    }
    ++s;
  }
  const TraceReport report = report_of_text(text);
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << shown(report);
  EXPECT_EQ(report.examined.sequences, 4);
  std::string without = text;
  without.replace(without.find(",\"rule\":\"rejection\""), 19, "");
  EXPECT_THAT(report_of_text(without).invalid, HasSubstr("field rule"));
}

/// Returns a trace of tokens drawn from two alternating rows; `say` adds fields to each round.
std::string tokens_with(const std::function<void(Json&, const std::vector<double>&, int)>& say, const Json& more = {},
                        bool right = true) {
  Json header = {{"type", "header"},    {"schema", "spectrace/2"}, {"engine", "e"}, {"vocabulary", 4},
                 {"rule", "rejection"}, {"temperature", "0x1p+0"}, {"prompt", {1}}, {"stop_tokens", Json::array()}};
  if (!more.is_null()) header.update(more);
  std::string text = header.dump() + "\n";
  Numbers numbers(5);
  const std::vector<double> rows[] = {{0.5, 0.25, 0.125, 0.125}, {0.125, 0.125, 0.5, 0.25}};
  for (int n = 0; n < 2000; ++n) {
    const auto& row = rows[n % 2];
    const auto& distribution = right ? row : rows[(n + 1) % 2];
    double coin = static_cast<double>(numbers.next() >> 40) * 0x1p-24;
    int token = 0;
    while ((coin -= distribution[token]) >= 0) ++token;
    Json step = {{"type", "round"}, {"round", n}, {"position", 1 + n}, {"emitted", {token}}};
    say(step, row, token);
    text += step.dump() + "\n";
  }
  return text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n";
}

std::string hex_of(double value) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%a", value);
  return digits;
}

void say_row(Json& step, const std::vector<double>& row, int) {
  Json list = Json::array();
  for (std::size_t i = 0; i < row.size(); ++i) list.insert(list.end(), {static_cast<int>(i), hex_of(row[i])});
  step["p_rows"] = {list};
}

/// Adds the log-probabilities of the two likeliest tokens, as an HTTP interface reports them.
void say_top(Json& step, const std::vector<double>& row, int token) {
  std::vector<std::size_t> ranked = {0, 1, 2, 3};
  std::stable_sort(ranked.begin(), ranked.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  step["top_logprobs"] = {{ranked[0], hex_of(std::log(row[ranked[0]])), ranked[1], hex_of(std::log(row[ranked[1]]))}};
  step["logprobs"] = {hex_of(std::log(row[token]))};
}

TEST(Foreign, RowsCanBeStatedForTokensWithoutDraftTokens) {
  const TraceReport right = report_of_text(tokens_with(say_row));
  EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << shown(right);
  EXPECT_EQ(right.token_test->tokens, 2000);
  EXPECT_EQ(report_of_text(tokens_with(say_row, {}, false)).verdict(), ReportVerdict::bug_stat);
}

TEST(Foreign, SlackAppliesToRowsOfAReferenceWithoutATarget) {
  // The reference gives the weight of the two least likely tokens to one of them.
  const std::string trace = tokens_with([](Json& step, const std::vector<double>& row, int) {
    std::vector<double> reference = row;
    const auto first = std::find(reference.begin(), reference.end(), 0.125) - reference.begin();
    reference[first] = 0.25;
    Json list = Json::array();
    for (int i = 0; i < 4; ++i) {
      if (i != first + 1) list.insert(list.end(), {i, hex_of(reference[i])});
    }
    step["p_rows"] = {list};
  });
  EXPECT_EQ(first_check(report_of_text(trace)), "distribution");
  TraceTarget none;
  none.slack = 0.13;
  const TraceReport granted = report_of_text(trace, none);
  EXPECT_EQ(granted.verdict(), ReportVerdict::pass_stat) << shown(granted);
  none.slack = 0.02;
  EXPECT_EQ(report_of_text(trace, none).verdict(), ReportVerdict::bug_stat) << "but no more than is granted";
}

TEST(Foreign, TopLogProbabilitiesAreADistributionToBetOn) {
  const TraceReport right = report_of_text(tokens_with(say_top));
  EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << shown(right);
  EXPECT_EQ(right.token_test->tokens, 1999) << "the first list says how long lists are";
  EXPECT_EQ(report_of_text(tokens_with(say_top, {}, false)).verdict(), ReportVerdict::bug_stat);
  const Json colder = {{"temperature", "0x1p-1"}};
  const TraceReport of_logits = report_of_text(tokens_with(say_top, colder));
  EXPECT_EQ(of_logits.verdict(), ReportVerdict::undecided)
      << "at another temperature they are not the distribution that tokens are drawn from";
  EXPECT_THAT(shown(of_logits), HasSubstr("field top_logprobs is not checked"));
  const Json of_distribution = {{"temperature", "0x1p-1"}, {"logprobs_of", "p"}};
  EXPECT_EQ(report_of_text(tokens_with(say_top, of_distribution)).verdict(), ReportVerdict::pass_stat)
      << "unless logprobs_of states p";
}

TEST(Foreign, LogProbabilitiesAreComparedWithEachOtherAndWithTheRow) {
  const auto check = [](const auto& say, const Json& more = {}) {
    return first_check(report_of_text(tokens_with(say, more)));
  };
  const auto both = [](Json& step, const std::vector<double>& row, int token) {
    say_row(step, row, token);
    say_top(step, row, token);
  };
  const Json of_distribution = {{"logprobs_of", "p"}};
  EXPECT_EQ(check(both, of_distribution), "");
  const auto off = [&](Json& step, const std::vector<double>& row, int token) {
    both(step, row, token);
    if (step["round"] == 7) step["logprobs"][0] = hex_of(std::log(row[token]) - 0.001);
  };
  EXPECT_EQ(check(off, of_distribution), "log_probability");
  const auto too_much = [](Json& step, const std::vector<double>&, int) {
    step["top_logprobs"] = {{0, hex_of(std::log(0.7)), 1, hex_of(std::log(0.6))}};
  };
  EXPECT_EQ(check(too_much), "log_probability");
  const auto above_1 = [](Json& step, const std::vector<double>&, int) { step["logprobs"] = {"0x1p-1"}; };
  EXPECT_EQ(check(above_1), "number");
}

}  // namespace
}  // namespace draftproof::spectrace::foreign_test
