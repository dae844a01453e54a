// SPDX-License-Identifier: MIT
// Bets on tokens where the trace states no decisions: wrong decoders are found by the distribution of their tokens,
// correct ones pass, and a trace too short to show anything does not pass. Also rules that are not replayed, and lossy
// ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "oracle/plain/plain.h"
#include "oracle/sequential/fault_models.h"
#include "oracle/spectrace/nearby_distribution.h"
#include "tests/fuzz/damage.h"
#include "tests/spectrace/float_engine.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace::token_test_test {
namespace {

using testing::HasSubstr;

constexpr int vocabulary = 16;

Distribution some_row(Numbers& numbers) {
  std::vector<Token> tokens;
  std::vector<std::uint64_t> weights;
  std::uint64_t sum = 0;
  for (Token token = 0; token < vocabulary; ++token) {
    const std::uint64_t side = 1 + numbers.below(10);
    tokens.push_back(token);
    weights.push_back(side * side * side);
    sum += weights.back();
  }
  std::uint64_t left = Distribution::total;
  for (std::uint64_t& weight : weights) {
    weight *= Distribution::total / sum;
    left -= weight;
  }
  weights[0] += left;
  return Distribution::exact(tokens, weights);
}

double one_below_1(Numbers& numbers) { return static_cast<double>(numbers.next() >> 11) * 0x1p-53; }

Token draw(const std::vector<Token>& tokens, const std::vector<double>& distribution, Numbers& numbers) {
  double coin = one_below_1(numbers);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if ((coin -= distribution[i]) < 0) return tokens[i];
  }
  return tokens.back();
}

PositionDistributions make_distributions(const Distribution& p, const Distribution& q) {
  PositionDistributions distributions;
  for (Token token = 0; token < vocabulary; ++token) {
    distributions.tokens.push_back(token);
    distributions.p.push_back(static_cast<double>(p.weight(token)) / static_cast<double>(Distribution::total));
    distributions.q.push_back(static_cast<double>(q.weight(token)) / static_cast<double>(Distribution::total));
  }
  return distributions;
}

Json pairs_of(const Distribution& row) {
  Json list = Json::array();
  const auto tokens = row.tokens();
  const auto weights = row.weights();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    list.push_back(tokens[i]);
    list.push_back(weights[i]);
  }
  return list;
}

Json header_of(const std::string& rule, int size = vocabulary) {
  return {{"type", "header"},
          {"schema", "spectrace/2"},
          {"engine", "somebody"},
          {"vocabulary", size},
          {"rule", rule},
          {"total_weight", Distribution::total},
          {"temperature", "0x1p+0"},
          {"prompt", {1}}};
}

/// Returns a trace of rounds with one draft token and a token after it: rows, but no decisions. The first token comes
/// from p, or from the distribution of the fault model, and equals the draft token as often as possible; the other from
/// p.
std::string tokens_with_rows(const FaultModel* mutant, int rounds, const std::string& rule = "rejection") {
  Numbers numbers(17);
  std::string text = header_of(rule).dump() + "\n";
  int position = 1;
  for (int n = 0; n < rounds; ++n) {
    const Distribution p = some_row(numbers);
    const Distribution q = some_row(numbers);
    const Distribution after = some_row(numbers);
    const PositionDistributions distributions = make_distributions(p, q);
    std::vector<double> distribution = distributions.p;
    if (mutant != nullptr) mutant->distribution(distributions, distribution);
    const Token draft_token = draw(distributions.tokens, distributions.q, numbers);
    const auto place = static_cast<std::size_t>(draft_token);
    Json step = {{"type", "round"},         {"round", n},
                 {"position", position},    {"draft_tokens", {draft_token}},
                 {"accepted", 1},           {"width", 2},
                 {"next_from", "bonus"},    {"emitted", {draft_token}},
                 {"p_rows", {pairs_of(p)}}, {"q_rows", {pairs_of(q)}}};
    if (one_below_1(numbers) * distributions.q[place] < distribution[place]) {
      const PositionDistributions own = make_distributions(after, after);
      step["emitted"].push_back(draw(own.tokens, own.p, numbers));
      step["p_rows"].push_back(pairs_of(after));
    } else {
      double sum = 0;
      for (std::size_t i = 0; i < distribution.size(); ++i) {
        sum += distribution[i] = std::max(distribution[i] - distributions.q[i], 0.0);
      }
      for (double& left : distribution) left /= sum;
      step["accepted"] = 0;
      step["next_from"] = rule == "greedy" ? "greedy" : "residual";
      step["emitted"] = {draw(distributions.tokens, distribution, numbers)};
    }
    position += static_cast<int>(step["emitted"].size());
    text += step.dump() + "\n";
  }
  return text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n";
}

TraceReport make_report(const std::string& text, const TraceTarget& target = {}) {
  const File file(text);
  return replay(file.path(), target);
}

TEST(TokenTests, ACorrectDecoderThatStatesNoDecisionsPassesByItsTokens) {
  const TraceReport report = make_report(tokens_with_rows(nullptr, 3000));
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(make_report(report));
  ASSERT_TRUE(report.token_test.has_value());
  EXPECT_EQ(report.token_test->tokens, report.examined.tokens);
  EXPECT_GT(report.token_test->tokens, 4000);
  EXPECT_LT(report.token_test->smallest_deviation, 0.1);
  EXPECT_THAT(report_text(make_report(report)), HasSubstr("e-value"));
  const Report shown = make_report(report);
  const std::string missing = "the trace does not state with which p, q and coin";
  EXPECT_THAT(report_text(shown), HasSubstr("not proved: " + missing));
  EXPECT_THAT(report_json(shown), HasSubstr(missing));
  EXPECT_THAT(report_junit(shown), HasSubstr("<system-out>not proved: the trace does not state how"));
  EXPECT_THAT(report_junit(shown), HasSubstr(missing));
  EXPECT_THAT(report_sarif(shown), HasSubstr("\"not proved: " + missing));
  EXPECT_THAT(report_html(shown), HasSubstr("<li>" + missing));
  ASSERT_LE(report.token_test->curve.size(), TraceTokenTest::points_max);
  EXPECT_GT(report.token_test->curve.size(), TraceTokenTest::points_max / 4);
  EXPECT_EQ(report.token_test->curve.back().first, report.token_test->tokens);
  ASSERT_EQ(report.depths.size(), 1U);
  EXPECT_EQ(report.depths[0].judged, 3000);
  EXPECT_THAT(report.accepted, testing::ElementsAre(testing::Gt(500), testing::Gt(1000)));
}

std::vector<std::string> not_found_within(int rounds) {
  std::vector<std::string> not_found;
  for (const FaultModel& mutant : fault_models()) {
    const TraceReport report = make_report(tokens_with_rows(&mutant, rounds));
    if (report.verdict() != ReportVerdict::bug_stat) {
      not_found.emplace_back(mutant.name);
      continue;
    }
    EXPECT_TRUE(report.token_test->alarm) << mutant.name;
    EXPECT_NE(report.token_test->suspect, "none") << mutant.name;
  }
  return not_found;
}

TEST(TokenTests, HalfOfTheFaultModelsAreFoundAfterAThousandRounds) {
  EXPECT_LE(not_found_within(1000).size(), fault_models().size() / 2);
}
TEST(TokenTestsSweep, AfterTwentyThousandRoundsOnlyDeviationsOfTwoPercentAreNotFound) {
  EXPECT_THAT(not_found_within(20000), testing::IsSubsetOf({"a little colder", "a little hotter", "tail missing"}));
}

TEST(TokenTests, TooFewTokensDoNotPassAndTheReportNamesHowManyAreMissing) {
  const TraceReport report = make_report(tokens_with_rows(nullptr, 4));
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided);
  EXPECT_EQ(report.token_test->smallest_deviation, 1);
  EXPECT_THAT(report_text(make_report(report)),
              HasSubstr(" tokens are too few to show any deviation, however large; "));
  EXPECT_THAT(report_text(make_report(report)), HasSubstr(" more would be enough to show the largest"));
}

/// Returns the trace twice, as two sequences. `generator`: of their random numbers, with a seed; empty: none is named.
std::string twice(const std::string& trace, int second_key, const std::string& generator) {
  std::istringstream lines(trace);
  std::string line;
  std::getline(lines, line);
  Json header = Json::parse(line);
  for (const char* field : {"prompt", "temperature"}) header.erase(field);  // of each sequence
  if (!generator.empty()) header["rng"] = {{"algorithm", generator}, {"seed", "1"}};
  std::string texts[2];
  while (std::getline(lines, line)) {
    for (int s = 0; s < 2; ++s) {
      Json step = Json::parse(line);
      step["sequence"] = s;
      texts[s] += step.dump() + "\n";
    }
  }
  const auto opening = [](int s, int key) {
    return Json({{"type", "sequence"}, {"sequence", s}, {"rng_key", key}, {"prompt", {1}}, {"temperature", "0x1p+0"}})
               .dump() +
           "\n";
  };
  return header.dump() + "\n" + opening(0, 0) + texts[0] + opening(1, second_key) + texts[1];
}

TEST(TokenTests, TokensDrawnWithTheSameRandomNumbersAreBetOnOnce) {
  const std::string trace = tokens_with_rows(nullptr, 500);
  for (const char* generator : {our_generator, "mt19937"}) {  // the other restarts with every request
    const TraceReport again = make_report(twice(trace, 0, generator));
    EXPECT_EQ(again.invalid, "");
    ASSERT_TRUE(again.token_test.has_value());
    const long once = make_report(trace).token_test->tokens;
    EXPECT_EQ(again.token_test->tokens, once) << generator;
    EXPECT_EQ(again.verdict(), ReportVerdict::undecided) << "nothing replaces what the second sequence does not state";
    EXPECT_THAT(report_text(make_report(again)),
                HasSubstr(std::to_string(once) + " tokens were drawn with the random numbers of an earlier"));
    const TraceReport other = make_report(twice(trace, 1, generator));
    ASSERT_TRUE(other.token_test.has_value());
    EXPECT_EQ(other.token_test->tokens, 2 * once) << "another key";
  }
  EXPECT_EQ(make_report(twice(trace, 0, "")).token_test->tokens, 2 * make_report(trace).token_test->tokens)
      << "no seed is named, and no coin: numbers are fresh";
}

TEST(TokenTests, TokensOfARepeatedKeyAreBetOnOnceInAnyOrderOfKeys) {
  // Keys 1 to 200 in an order that joins ranges of them at both ends, then all of them again.
  std::vector<int> keys;
  for (int i = 1; i <= 200; ++i) keys.push_back(i * 64 % 201);
  std::string text = header_of("rejection").dump();
  Json header = Json::parse(text);
  for (const char* field : {"prompt", "temperature"}) header.erase(field);
  header["rng"] = {{"algorithm", our_generator}, {"seed", "1"}};
  text = header.dump() + "\n";
  const Json row = {3, Distribution::total / 2, 4, Distribution::total / 2};
  int s = 0;
  for (int time = 0; time < 2; ++time) {
    for (const int key : keys) {
      text +=
          Json({{"type", "sequence"}, {"sequence", s}, {"rng_key", key}, {"prompt", {1}}, {"temperature", "0x1p+0"}})
              .dump() +
          "\n";
      text += Json({{"type", "round"},
                    {"sequence", s},
                    {"round", 0},
                    {"position", 1},
                    {"draft_tokens", Json::array()},
                    {"accepted", 0},
                    {"width", 1},
                    {"next_from", "bonus"},
                    {"emitted", {3}},
                    {"p_rows", {row}}})
                  .dump() +
              "\n";
      text += Json({{"type", "end"}, {"sequence", s++}, {"reason", "cancelled"}}).dump() + "\n";
    }
  }
  const TraceReport report = make_report(text);
  EXPECT_EQ(report.invalid, "");
  ASSERT_TRUE(report.token_test.has_value());
  EXPECT_EQ(report.token_test->tokens, 200);
}

TEST(TokenTests, ARowOfSeveralTokensIsNoBetOnGreedyTokens) {
  Numbers numbers(31);
  std::string text = header_of("greedy").dump() + "\n";
  for (int n = 0; n < 500; ++n) {
    const Distribution p = some_row(numbers);
    const auto weights = p.weights();
    const auto best = static_cast<Token>(std::max_element(weights.begin(), weights.end()) - weights.begin());
    const Json step = {{"type", "round"},        {"round", n}, {"position", 1 + n},     {"draft_tokens", Json::array()},
                       {"accepted", 0},          {"width", 1}, {"next_from", "greedy"}, {"emitted", {best}},
                       {"p_rows", {pairs_of(p)}}};
    text += step.dump() + "\n";
  }
  const TraceReport report = make_report(text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n");
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << report_text(make_report(report));
}

TEST(TokenTests, ATokenWithoutWeightInPIsProvenWrong) {
  std::string text = header_of("rejection").dump() + "\n";
  const Json step = {{"type", "round"},
                     {"round", 0},
                     {"position", 1},
                     {"draft_tokens", Json::array()},
                     {"accepted", 0},
                     {"width", 1},
                     {"next_from", "bonus"},
                     {"emitted", {5}},
                     {"p_rows", {{3, Distribution::total / 2, 4, Distribution::total / 2}}}};
  const TraceReport report = make_report(text + step.dump() + "\n");
  ASSERT_EQ(report.verdict(), ReportVerdict::bug_proven) << report_text(make_report(report));
  EXPECT_EQ(report.findings.front().check, std::string("distribution"));
}

/// Few levels make ties, whose order slack leaves open.
constexpr HashShape with_levels(int levels) { return {.vocabulary = 6, .levels = levels, .seed = 5}; }

/// Returns tokens only, as a decoder of the hash model draws them at this temperature.
std::string tokens_only(Recorded& recorded, float temperature, int count, const std::string& numerics) {
  Json header = header_of("rejection", recorded.model().vocabulary());
  header["numerics"] = numerics;
  std::string text = header.dump() + "\n";
  std::vector<Token> tokens{1};
  Numbers numbers(23);
  for (int n = 0; n < count; ++n) {
    const Distribution p = plain_row(recorded.model(), {.temperature = temperature}, tokens).distribution;
    std::vector<double> distribution;
    for (const std::uint64_t weight : p.weights()) {
      distribution.push_back(static_cast<double>(weight) / static_cast<double>(Distribution::total));
    }
    const Token token = draw(p.tokens(), distribution, numbers);
    text += Json({{"type", "round"}, {"round", n}, {"position", 1 + n}, {"emitted", {token}}}).dump() + "\n";
    tokens.push_back(token);
  }
  return text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n";
}

TEST(TokenTests, TokensAloneAreBetOnWithTheTarget) {
  Recorded recorded;
  const TraceReport right = make_report(tokens_only(recorded, 1, 800, "hash"), recorded.target());
  EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << report_text(make_report(right));
  EXPECT_EQ(right.token_test->tokens, 800);
  EXPECT_EQ(make_report(tokens_only(recorded, 1, 800, "hash")).verdict(), ReportVerdict::undecided) << "no p is known";
  for (const float temperature : {0.4F, 3.0F}) {
    const TraceReport wrong = make_report(tokens_only(recorded, temperature, 800, "hash"), recorded.target());
    EXPECT_EQ(wrong.verdict(), ReportVerdict::bug_stat) << temperature << report_text(make_report(wrong));
  }
}

TEST(TokenTests, TokensOfOtherNumericsAreBetOnWithTheTargetOnlyUnderSlack) {
  Recorded recorded;
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  const auto held = [&](float temperature, double slack) {
    target.slack = slack;
    return make_report(tokens_only(recorded, temperature, 800, "somewhere else"), target);
  };
  const TraceReport strict = held(1, 0);
  EXPECT_EQ(strict.verdict(), ReportVerdict::undecided);
  EXPECT_THAT(report_text(make_report(strict)), HasSubstr("'somewhere else', which are not available here"));
  EXPECT_EQ(held(1, 0.01).verdict(), ReportVerdict::pass_stat);
  EXPECT_EQ(held(0.95F, 0.05).verdict(), ReportVerdict::pass_stat) << "a little colder is within the slack";
  EXPECT_EQ(held(0.2F, 0.01).verdict(), ReportVerdict::bug_stat);
  const TraceReport loose = held(1, 0.3);
  EXPECT_EQ(loose.verdict(), ReportVerdict::undecided);
  EXPECT_THAT(report_text(make_report(loose)), HasSubstr("distribution for more than one token in ten"));
}

TEST(TokenTests, AGreedyTokenOfOtherNumericsIsTheTargetsBestOrANearTie) {
  Recorded recorded(with_levels(1000));
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  std::string text = tokens_only(recorded, 0, 100, "somewhere else");
  const std::string temperature = "\"temperature\":\"0x1p+0\"";
  text.replace(text.find(temperature), temperature.size(), "\"temperature\":\"0x0p+0\"");
  std::vector<std::string> lines = lines_of(text);
  Json step = Json::parse(lines.back() == "" ? lines[99] : lines[100]);
  step["emitted"][0] = (step["emitted"][0].get<int>() + 1) % 6;
  lines[100] = step.dump();
  const auto held = [&](const std::string& trace, double slack, double tie) {
    target.slack = slack;
    target.tie = tie;
    return make_report(trace, target);
  };
  EXPECT_EQ(held(text, 0, 0).verdict(), ReportVerdict::pass_stat) << "every token is the target's best";
  const TraceReport far = held(joined(lines), 0, 0);
  EXPECT_EQ(far.verdict(), ReportVerdict::bug_proven) << "447 logits are more than numerics explain";
  EXPECT_EQ(far.findings.front().check, std::string("best"));
  for (const auto& [slack, tie] : {std::pair(0.01, 0.0), std::pair(0.0, 0.01)}) {
    const TraceReport right = held(text, slack, tie);
    EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << report_text(make_report(right));
    EXPECT_THAT(report_text(make_report(right)), HasSubstr("0 of 100 are not the target's best"));
    const TraceReport wrong = held(joined(lines), slack, tie);
    ASSERT_EQ(wrong.verdict(), ReportVerdict::bug_proven) << report_text(make_report(wrong));
    EXPECT_EQ(wrong.findings.front().check, std::string("best"));
    EXPECT_THAT(wrong.findings.front().observed, HasSubstr("no near tie"));
  }
  const TraceReport loose = held(joined(lines), 0, 1000);
  EXPECT_EQ(loose.verdict(), ReportVerdict::pass_stat) << "--tie allows every token that far below";
  EXPECT_THAT(report_text(make_report(loose)), HasSubstr("1 of 100 are not the target's best; the furthest lies "));
  target.computing_in = [&](const std::string&) { return target.computing_anyhow(); };
  EXPECT_EQ(held(text, 0, 0).verdict(), ReportVerdict::pass_exact) << "every token is plain decoding's";
  EXPECT_EQ(held(joined(lines), 0, 0).verdict(), ReportVerdict::bug_proven) << "where they are the target's own";
}

/// All gaps of this model are below the 8 logits that some numerics may explain.
TEST(TokenTests, ASmallGapOfAGreedyTokenIsUndecidedWithoutAFlagAndTheReportNamesTheFlag) {
  Recorded recorded;
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  int open = 0;
  for (Token token = 0; token < recorded.model().vocabulary(); ++token) {
    Json header = header_of("greedy", recorded.model().vocabulary());
    header["temperature"] = "0x0p+0";
    const std::string text = header.dump() + "\n" +
                             Json({{"type", "round"}, {"round", 0}, {"position", 1}, {"emitted", {token}}}).dump() +
                             "\n{\"type\":\"end\",\"reason\":\"cancelled\"}\n";
    target.tie = 0;
    const TraceReport report = make_report(text, target);
    ASSERT_TRUE(report.findings.empty()) << report_text(make_report(report));
    if (report.verdict() == ReportVerdict::pass_stat) continue;
    ++open;
    EXPECT_EQ(report.verdict(), ReportVerdict::undecided);
    const std::string shown = report_text(make_report(report));
    EXPECT_THAT(shown, HasSubstr("1 of 1 greedy tokens are not the target's best; the furthest lies "));
    const std::string flag = "UNDECIDED: --tie ";
    ASSERT_THAT(shown, HasSubstr(flag));
    target.tie = std::stod(shown.substr(shown.find(flag) + flag.size()));
    EXPECT_EQ(make_report(text, target).verdict(), ReportVerdict::pass_stat);
  }
  EXPECT_GT(open, 0);
}

TEST(TokenTests, TokensOfOneChoiceAreBetOnUnderSlack) {
  // Under top-p most rows are points: a correct engine emits their token, a wrong one sometimes another.
  Recorded recorded(with_levels(40));
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  target.slack = 1e-4;
  for (const bool right : {true, false}) {
    Json header = header_of("rejection", recorded.model().vocabulary());
    header["numerics"] = "somewhere else";
    header["top_p"] = "0x1p-2";
    std::string text = header.dump() + "\n";
    std::vector<Token> tokens{1};
    for (int n = 0; n < 200; ++n) {
      const Distribution p = plain_row(recorded.model(), {.temperature = 1, .top_p = 0.25F}, tokens).distribution;
      Token token = p.tokens().front();
      if (!right && n == 150) token = (token + 1) % recorded.model().vocabulary();
      text += Json({{"type", "round"}, {"round", n}, {"position", 1 + n}, {"emitted", {token}}}).dump() + "\n";
      tokens.push_back(token);
    }
    const TraceReport report = make_report(text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n", target);
    EXPECT_THAT(report_text(make_report(report)), HasSubstr("tokens of one choice"));
    EXPECT_THAT(report_text(make_report(report)), HasSubstr("it is assumed that penalties, temperature, top-k"));
    EXPECT_EQ(report.verdict(), right ? ReportVerdict::pass_stat : ReportVerdict::bug_proven)
        << report_text(make_report(report));
  }
}

TEST(TokenTests, BetsAreReportedAfterAHundredFindings) {
  std::vector<std::string> lines = lines_of(tokens_with_rows(nullptr, 400));
  for (std::size_t n = 200; n < 400; ++n) {
    Json step = Json::parse(lines[n]);
    step["next_from"] = step["next_from"] == "residual" ? "bonus" : "residual";
    lines[n] = step.dump();
  }
  const TraceReport report = make_report(joined(lines));
  EXPECT_EQ(report.findings.size(), TraceReport::findings_max);
  ASSERT_TRUE(report.token_test.has_value());
  EXPECT_GE(report.token_test->tokens, 300);
  EXPECT_THAT(report_text(make_report(report)), HasSubstr("e-value"));
}

TEST(TokenTests, TokensOfOtherNumericsAreBetOnWithTheTargetEvenIfTheTraceStatesRows) {
  Recorded recorded;
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  target.slack = 0.05;
  for (const float temperature : {1.0F, 0.98F, 3.0F}) {
    auto lines = lines_of(recorded.text({"", &rejection, {.temperature = temperature}, "perturbed"}));
    Json opening = Json::parse(lines[1]);
    opening["temperature"] = "0x1p+0";
    opening["numerics"] = "somewhere else";
    lines[1] = opening.dump();
    const TraceReport report = make_report(sealed(lines), target);
    ASSERT_EQ(report.verdict() == ReportVerdict::bug_proven, temperature == 3) << report_text(make_report(report));
    if (temperature < 3) continue;
    EXPECT_EQ(report.findings.front().check, std::string("p_row"));
    EXPECT_THAT(report.findings.front().expected, HasSubstr("at most 0.05 away"));
  }
}

/// Draws tokens of the hash model as an engine of floats does, with its rows and its own order of samplers.
struct FloatRun {
  Sampling sampling = {.temperature = 1};
  std::vector<std::string> order = our_order();
  bool order_said = true;
  bool rows = true;
  bool logprobs = false;
  double drawn_at = 1;  // temperature of the rows and tokens, as a fraction of the stated one
  int tokens = 600;
  std::string numerics = "float32";
};

std::string hex(double value) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%a", value);
  return digits;
}

std::string trace_of(Recorded& recorded, const FloatRun& run) {
  const Sampling& s = run.sampling;
  Json header = {{"type", "header"},
                 {"schema", "spectrace/2"},
                 {"engine", "floats"},
                 {"rule", "rejection"},
                 {"vocabulary", recorded.model().vocabulary()},
                 {"temperature", hex(static_cast<double>(s.temperature))},
                 {"top_p", hex(static_cast<double>(s.top_p))},
                 {"prompt", {1}},
                 {"stop_tokens", Json::array()}};
  if (!run.numerics.empty()) header["numerics"] = run.numerics;
  if (run.order_said) header["sampler_order"] = run.order;
  std::string text = header.dump() + "\n";
  std::vector<Token> tokens{1};
  Numbers numbers(23);
  for (int n = 0; n < run.tokens; ++n) {
    const std::vector<float> floats = logits_after(recorded.model(), tokens);
    const std::vector<double> logits(floats.begin(), floats.end());
    Sampling drawn = s;
    drawn.temperature *= static_cast<float>(run.drawn_at);
    const auto distribution = nearby_distribution(logits, drawn, run.order, tokens, 1e-12);
    std::vector<double> p;
    Json row = Json::array();
    for (const Token token : distribution->p.tokens()) {
      p.push_back(static_cast<double>(static_cast<float>(distribution->p.weight(token)) * 0x1p-52F));
      row.insert(row.end(), {token, hex(p.back())});
    }
    const Token token = draw(distribution->p.tokens(), p, numbers);
    Json step = {{"type", "round"}, {"round", n}, {"position", 1 + n}, {"emitted", {token}}};
    if (run.rows) step["p_rows"] = {row};
    if (run.logprobs) step["logprobs"] = {hex(log_probability(logits, token))};
    text += step.dump() + "\n";
    tokens.push_back(token);
  }
  return text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n";
}

TEST(TokenTests, RealRowsAreComparedWithTheTargetAndTheReportStatesTheirDistance) {
  Recorded recorded;
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  const auto held = [&](const FloatRun& run, double slack) {
    target.slack = slack;
    return make_report(trace_of(recorded, run), target);
  };
  const TraceReport strict = held({}, 0);
  EXPECT_EQ(strict.verdict(), ReportVerdict::undecided);
  EXPECT_THAT(report_text(make_report(strict)), HasSubstr("p are reals, and the target's own are integers"));
  const TraceReport right = held({}, 1e-3);
  EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << report_text(make_report(right));
  EXPECT_EQ(right.token_test->tokens, 600);
  ASSERT_TRUE(right.furthest_row.has_value());
  EXPECT_LT(*right.furthest_row, 1e-5) << "floats";
  EXPECT_THAT(report_text(make_report(right)), HasSubstr("furthest row from the target's"));
  FloatRun hot;
  hot.drawn_at = 1.3;
  const TraceReport wrong = held(hot, 1e-3);
  EXPECT_EQ(wrong.verdict(), ReportVerdict::bug_proven);
  EXPECT_EQ(wrong.findings.front().check, std::string("p_row"));
  hot.rows = false;
  hot.drawn_at = 3;
  EXPECT_EQ(held(hot, 1e-3).verdict(), ReportVerdict::bug_stat) << "tokens alone";
  hot.numerics.clear();
  EXPECT_EQ(held(hot, 0).verdict(), ReportVerdict::undecided);
}

TEST(TokenTests, AnEngineThatAppliesTemperatureLastPassesAndWhereItDoesNotStateItsOrderTheOneThatFitsIsNamed) {
  Recorded recorded(with_levels(16));
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  target.slack = 1e-4;
  FloatRun last;
  last.sampling = {.temperature = 2.5F, .top_p = 0.7F};
  last.order = {"penalties", "top_k", "top_p", "min_p", "temperature"};
  last.rows = false;
  last.tokens = 1500;
  const TraceReport said = make_report(trace_of(recorded, last), target);
  EXPECT_EQ(said.verdict(), ReportVerdict::pass_stat) << report_text(make_report(said));
  EXPECT_TRUE(said.assumed.empty());
  last.order_said = false;
  const TraceReport tried = make_report(trace_of(recorded, last), target);
  EXPECT_EQ(tried.verdict(), ReportVerdict::pass_stat) << report_text(make_report(tried));
  EXPECT_THAT(report_text(make_report(tried)), HasSubstr("assumed that penalties, top-k, top-p, min-p, temperature "));
  EXPECT_THAT(report_text(make_report(tried)),
              HasSubstr("the engine's: it is that of llama.cpp; with ours the tokens"));

  // Stated wrongly, and wrong in every order.
  last.order_said = true;
  std::vector<std::string> lines = lines_of(trace_of(recorded, last));
  Json header = Json::parse(lines[0]);
  header["sampler_order"] = our_order();
  lines[0] = header.dump();
  const auto accused = [](const TraceReport& report) {
    return report.verdict() == ReportVerdict::bug_stat || report.verdict() == ReportVerdict::bug_proven;
  };
  EXPECT_TRUE(accused(make_report(joined(lines), target)));
  last.order_said = false;
  last.drawn_at = 4;
  last.tokens = 4000;
  last.sampling = {.temperature = 0.5F, .top_p = 0.7F};
  const TraceReport wrong = make_report(trace_of(recorded, last), target);
  EXPECT_TRUE(accused(wrong)) << report_text(make_report(wrong));
  EXPECT_THAT(make_report(wrong).reason, HasSubstr("assuming that penalties, temperature, top-k, top-p, min-p"));
  EXPECT_THAT(make_report(wrong).reason, HasSubstr("assuming that the order is one of the known ones, none of which"));

  // A fault that no order explains: more tokens than asked for.
  last.drawn_at = 1;
  last.tokens = 100;
  last.order = our_order();
  lines = lines_of(trace_of(recorded, last));
  header = Json::parse(lines[0]);
  header["max_new_tokens"] = 99;
  lines[0] = header.dump();
  const TraceReport too_long = make_report(joined(lines), target);
  EXPECT_EQ(too_long.verdict(), ReportVerdict::bug_proven);
  EXPECT_THAT(make_report(too_long).reason, testing::Not(HasSubstr("none of which")));
}

TEST(TokenTests, LogProbabilitiesAreComparedWithTheTarget) {
  Recorded recorded;
  TraceTarget target = recorded.target();
  target.computing_anyhow = [&] { return std::shared_ptr<Model>(std::shared_ptr<Model>(), &recorded.model()); };
  target.slack = 1e-3;
  FloatRun run;
  run.logprobs = true;
  run.tokens = 200;
  auto lines = lines_of(trace_of(recorded, run));
  const TraceReport right = make_report(joined(lines), target);
  EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << report_text(make_report(right));
  EXPECT_LT(right.furthest_logprob.value_or(1), 1e-9);
  EXPECT_EQ(make_report(joined(lines)).verdict(), ReportVerdict::pass_stat) << "held to the rows";
  target.slack = 0;
  EXPECT_TRUE(make_report(joined(lines), target).findings.empty()) << "without a slack not held to the target";
  target.slack = 1e-3;
  Json step = Json::parse(lines[20]);
  step["logprobs"][0] = hex(-9.0);
  lines[20] = step.dump();
  const TraceReport wrong = make_report(joined(lines), target);
  ASSERT_EQ(wrong.verdict(), ReportVerdict::bug_proven) << report_text(make_report(wrong));
  EXPECT_EQ(wrong.findings.front().check, std::string("log_probability"));
  EXPECT_EQ(wrong.findings.front().place.line, 21);
}

TEST(TokenTests, ASecondTurnIsBetOnFromTheFirstPositionWithFreshRandomNumbers) {
  const std::string trace = tokens_with_rows(nullptr, 300);
  std::vector<std::string> lines = lines_of(trace);
  Json header = Json::parse(lines[0]);
  for (const char* field : {"prompt", "temperature"}) header.erase(field);
  const auto turns = [&](const char* generator, bool longer) {
    header["rng"] = {{"algorithm", generator}, {"seed", "1"}};
    std::string text = header.dump() + "\n";
    std::vector<Token> prompt{1};
    for (int s = 0; s < 2; ++s) {
      text +=
          Json({{"type", "sequence"}, {"sequence", s}, {"rng_key", 7}, {"prompt", prompt}, {"temperature", "0x1p+0"}})
              .dump() +
          "\n";
      const auto before = static_cast<int>(prompt.size()) - 1;
      for (std::size_t i = 1; i < lines.size(); ++i) {
        Json line = Json::parse(lines[i]);
        line["sequence"] = s;
        if (line.contains("position")) line["position"] = line["position"].get<int>() + before;
        text += line.dump() + "\n";
        if (s > 0 || !longer || !line.contains("emitted")) continue;
        for (const Json& token : line["emitted"]) prompt.push_back(token);
      }
    }
    return make_report(text);
  };
  const long once = make_report(trace).token_test->tokens;
  EXPECT_EQ(turns(our_generator, true).token_test->tokens, 2 * once) << "the prompt of the second turn is the first";
  EXPECT_EQ(turns(our_generator, false).token_test->tokens, once) << "the same positions again";
  const TraceReport other = turns("mt19937", true);
  EXPECT_EQ(other.token_test->tokens, once) << "whose numbers do not follow from positions";
  EXPECT_THAT(report_text(make_report(other)), HasSubstr("were drawn with the random numbers of an earlier sequence"));
}

/// A correct matching decoder with one random number per position, which draws both the draft token and the target's
/// token. It proposes a draft token only where that is the draft's best token.
std::string drafts_with_the_targets_number(int rounds) {
  Numbers numbers(29);
  std::string text = header_of("matching").dump() + "\n";
  int position = 1;
  for (int n = 0; n < rounds; ++n) {
    const Distribution p = some_row(numbers);
    const auto at = [&](std::uint64_t coin) {
      std::size_t i = 0;
      for (; coin >= p.weights()[i]; ++i) coin -= p.weights()[i];
      return p.tokens()[i];
    };
    const std::uint64_t coin = numbers.next() >> 12;
    const Token token = at(coin);  // of the draft, too: its q is p
    const auto weights = p.weights();
    const Token best = p.tokens()[std::max_element(weights.begin(), weights.end()) - weights.begin()];
    Json step = {{"type", "round"},         {"round", n},
                 {"position", position},    {"draft_tokens", Json::array()},
                 {"accepted", 0},           {"width", 1},
                 {"next_from", "bonus"},    {"emitted", {token}},
                 {"p_rows", {pairs_of(p)}}, {"q_rows", Json::array()}};
    if (token == best) {
      step["draft_tokens"] = {token};
      step["accepted"] = 1;
      step["width"] = 2;
      step["q_rows"] = {pairs_of(p)};
      step["p_rows"].push_back(pairs_of(p));
      step["emitted"].push_back(at(numbers.next() >> 12));
    }
    position += static_cast<int>(step["emitted"].size());
    text += step.dump() + "\n";
  }
  return text + "{\"type\":\"end\",\"reason\":\"cancelled\"}\n";
}

TEST(TokenTests, MatchingDoesNotBetWithQWhichMayDependOnTheTargetsRandomNumber) {
  const TraceReport report = make_report(drafts_with_the_targets_number(2000));
  EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(make_report(report));
}

TEST(TokenTests, BlockVerificationIsCheckedByBetsOnItsTokens) {
  const TraceReport right = make_report(tokens_with_rows(nullptr, 3000, "block"));
  EXPECT_EQ(right.verdict(), ReportVerdict::pass_stat) << report_text(make_report(right));
  EXPECT_THAT(report_text(make_report(right)), HasSubstr("block verification decides about all draft tokens together"));
  const auto accept_all = std::find_if(fault_models().begin(), fault_models().end(),
                                       [](const FaultModel& fault) { return fault.name == std::string("accept all"); });
  EXPECT_EQ(make_report(tokens_with_rows(&*accept_all, 3000, "block")).verdict(), ReportVerdict::bug_stat);
}

TEST(TokenTests, ALossyRuleNeverPassesAndIsNeverABug) {
  for (const FaultModel* distribution : {static_cast<const FaultModel*>(nullptr), &fault_models().front()}) {
    const TraceReport report = make_report(tokens_with_rows(distribution, 1000, "lossy:typical"));
    EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << report_text(make_report(report));
    EXPECT_EQ(report.token_test->alarm, distribution != nullptr);
    EXPECT_THAT(report_text(make_report(report)), HasSubstr("the rule 'typical' is declared lossy"));
  }
  std::vector<std::string> lines = lines_of(tokens_with_rows(nullptr, 5, "lossy:typical"));
  Json last = Json::parse(lines[5]);
  last["position"] = last["position"].get<int>() + 1;
  lines[5] = last.dump();
  EXPECT_EQ(make_report(joined(lines)).verdict(), ReportVerdict::bug_proven) << "positions are held all the same";
}

TEST(Reals, EveryRealRandomNumberIsReplayed) {
  for (const char* rule : {"rejection", "matching"}) {
    const TraceReport report = make_report(FloatEngine(3).trace(rule, 4000));
    EXPECT_EQ(report.verdict(), ReportVerdict::pass_stat) << report_text(make_report(report));
    EXPECT_GT(report.examined.reals, 4000);
    EXPECT_GT(report.examined.accepted, 100);
    EXPECT_LT(report.examined.band_mass, 1);
  }
}

TEST(Reals, NoRealTracePassesWithARandomNumberOrTokenChanged) {
  for (const char* rule : {"rejection", "matching"}) {
    const auto lines = lines_of(FloatEngine(3).trace(rule, 40));
    const File file;
    std::map<std::string, int> changed, found;
    for (std::size_t at = 1; at + 1 < lines.size(); ++at) {
      for (const char* field :
           {"accept_u", "draft_u", "next_u", "draft_tokens", "emitted", "q_draft", "p_draft", "p_rows", "q_rows"}) {
        Json step = Json::parse(lines[at]);
        if (!step.contains(field) || step[field].empty()) continue;
        const bool any_will_do = rule == std::string("matching") && field == std::string("draft_tokens");
        if (any_will_do) continue;
        Json* place = &step[field];
        while (place->is_array()) place = &place->back();
        if (place->is_number()) {
          *place = (place->get<int>() + 1) % 8;
        } else {
          const double value = std::strtod(place->get<std::string>().c_str(), nullptr);
          *place = value < 0.5 ? "0x1.fp-1" : "0x1p-9";
        }
        std::vector<std::string> tampered = lines;
        tampered[at] = step.dump();
        file.put(joined(tampered));
        ++changed[field];
        const ReportVerdict verdict = replay(file.path()).verdict();
        found[field] += verdict == ReportVerdict::bug_proven || verdict == ReportVerdict::invalid_trace;
      }
    }
    for (const auto& [field, times] : changed) {
      // Another coin may lead to the same decision.
      const bool coin = field == "accept_u" || field == "draft_u" || field == "next_u";
      EXPECT_GE(2 * found[field], times) << rule << " " << field << ": " << found[field] << " of " << times;
      EXPECT_TRUE(coin || found[field] == times) << rule << " " << field << ": " << found[field] << " of " << times;
    }
  }
}

TEST(Reals, AnEngineThatHidesWithinRoundingIsFound) {
  // Every coin that would have rejected is moved to where the last bit decides.
  const auto hide = [](float drawn, float p, float q) { return drawn * q < p || p == 0 ? drawn : p / q; };
  const TraceReport report = make_report(FloatEngine(3).trace("rejection", 100, hide));
  ASSERT_EQ(report.verdict(), ReportVerdict::bug_proven) << report_text(make_report(report));
  EXPECT_EQ(report.findings.back().check, std::string("band"));
}

TEST(Reals, RealsOfTooFewDigitsAreUndecided) {
  std::string text = FloatEngine(3).trace("rejection", 100);
  const std::string rule = "\"rule\":\"rejection\"";
  text.replace(text.find(rule), rule.size(), rule + ",\"dtype\":\"bf16\"");
  const TraceReport report = make_report(text);
  EXPECT_EQ(report.verdict(), ReportVerdict::undecided) << report_text(make_report(report));
  EXPECT_THAT(report_text(make_report(report)), HasSubstr("weights of a finer dtype leave fewer open"));
}

}  // namespace
}  // namespace draftproof::spectrace::token_test_test
