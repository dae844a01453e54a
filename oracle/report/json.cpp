// SPDX-License-Identifier: MIT
// For programs. docs/report.md is the schema; a test compares the two.
#include <cmath>
#include <nlohmann/json.hpp>

#include "oracle/report/report.h"

namespace draftproof {
namespace {

using Json = nlohmann::ordered_json;

/// Returns a string for a number that is not finite, because JSON has no infinity.
Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return value;
}

Json amount(double value) {
  const bool whole = std::fabs(value) < 0x1p53 && value == std::floor(value);
  return whole ? Json(static_cast<std::int64_t>(value)) : number(value);
}

Json list_of(const auto& elements, const auto& json_of_one) {
  Json list = Json::array();
  for (const auto& element : elements) list.push_back(json_of_one(element));
  return list;
}

Json json_of(const Spread& spread) {
  return {{"median", number(spread.median)}, {"min", number(spread.min)}, {"max", number(spread.max)}};
}

Json json_of(const Failure& failure) {
  Json json;
  json["run"] = failure.run;
  if (failure.line > 0) json["line"] = failure.line;
  if (failure.round >= 0) json["round"] = failure.round;
  if (failure.position >= 0) json["position"] = failure.position;
  json["expected"] = failure.expected;
  json["observed"] = failure.observed;
  json["facts"] = failure.facts;
  json["blames"] = failure.blames;
  json["clears"] = failure.clears;
  if (!failure.reproduce.empty()) json["reproduce"] = failure.reproduce;
  return json;
}

Json json_of(const Finding& finding) {
  Json json = {{"name", finding.check},
               {"outcome", name_of(finding.outcome)},
               {"examined", finding.examined},
               {"message", finding.message}};
  if (finding.failure) json["failure"] = json_of(*finding.failure);
  return json;
}

Json json_of(const DraftReport& draft) {
  const Statistics& s = draft.statistics;
  return {
      {"name", draft.name},
      {"mean_accepted", number(s.average_accepted())},
      {"acceptance_rate", number(s.acceptance())},
      {"tokens_per_round", number(draft.tokens_per_round)},
      {"iterations", s.iterations},
      {"drafted", s.drafted},
      {"accepted", s.accepted},
      {"logits", draft.logits.hex()},
      {"seconds", json_of(draft.seconds)},
      {"depths",
       list_of(
           draft.depths,
           [](const Depth& depth) {
             return Json{{"judged", depth.judged}, {"accepted", depth.accepted}, {"expected", number(depth.expected)}};
           })},
      {"rounds_by_accepted", draft.accepted},
      {"untested", draft.untested}};
}

Json json_of(const TokenTest& token_test) {
  Json json = {{"tokens", token_test.tokens},
               {"alpha", number(token_test.alpha)},
               {"slack", number(token_test.slack)},
               {"e_value", number(token_test.e_value)},
               {"smallest_deviation", number(token_test.smallest_deviation)},
               {"suspect", token_test.suspect},
               {"curve", list_of(token_test.curve, [](const auto& point) {
                  return Json{point.first, number(point.second)};
                })}};
  if (!token_test.by_bet.empty()) {
    json["by_bet"] = list_of(token_test.by_bet, [](double of_bet) { return number(of_bet); });
  }
  return json;
}

Json json_of(const Bets& bets) {
  return {{"about", bets.about},         {"observed", bets.observed},
          {"alpha", number(bets.alpha)}, {"e_value", number(bets.e_value)},
          {"alarm", bets.alarm},         {"message", bets.message}};
}

Json json_of(const Divergence& divergence) {
  return {{"run", divergence.run},
          {"round", divergence.round},
          {"position", divergence.position},
          {"before", divergence.before},
          {"plain", divergence.plain},
          {"observed", divergence.observed},
          {"draft_tokens", divergence.draft_tokens}};
}

Json json_of(const TextDifference& difference) {
  Json json = {{"run", difference.run},
               {"position", difference.position},
               {"plain", difference.plain},
               {"observed", difference.observed},
               {"explanation", difference.explanation}};
  if (difference.gap) {
    json["gap"] = number(*difference.gap);
    json["gap_at_least"] = difference.gap_at_least;
    json["gap_from"] = difference.gap_from;
  }
  return json;
}

Json json_of(const Matrix& matrix) {
  return {{"checks", matrix.checks},
          {"decoders", list_of(matrix.rows, [](const Matrix::Row& row) {
             return Json{{"id", row.id},
                         {"name", row.name},
                         {"harm", row.harm},
                         {"stage", row.stage},
                         {"issue", row.issue},
                         {"cause", row.cause},
                         {"expected_failures", row.expected_failures},
                         {"as_expected", row.as_expected},
                         {"outcomes", list_of(row.outcomes, [](Outcome outcome) { return Json(name_of(outcome)); })},
                         {"messages", row.messages}};
           })}};
}

Json json_of(const TrialSummary& trial) {
  return {{"id", trial.id},           {"command", trial.command},  {"verdict", trial.verdict},
          {"reason", trial.reason},   {"failed", trial.failed},    {"output_tokens", trial.output_tokens},
          {"drafted", trial.drafted}, {"accepted", trial.accepted}};
}

}  // namespace

std::string report_json(const Report& r) {
  Json json;
  json["schema"] = "draftproof-report/2";
  json["command"] = r.command;
  json["version"] = r.version;
  json["verdict"] = name_of(r.verdict);
  json["reason"] = r.reason;
  if (!r.scope.empty()) json["scope"] = r.scope;
  json["subject"] = r.subject;
  if (r.command == "verify") json["target"] = r.subject;
  if (!r.drafts.empty()) json["draft"] = r.drafts.front().name;
  json["about"] = Json::object();
  for (const auto& [name, value] : r.about) json["about"][name] = value;
  json["examined"] = Json::object();
  for (const auto& [name, count] : r.examined) json["examined"][name] = amount(count);
  const auto each = [](const auto& element) { return json_of(element); };
  json["checks"] = list_of(r.findings, each);
  json["unproved"] = r.unproved;
  if (!r.drafts.empty()) {
    const DraftReport& first = r.drafts.front();
    json["output_tokens"] = r.output_tokens;
    json["mean_accepted"] = number(first.statistics.average_accepted());
    json["tokens_per_round"] = number(first.tokens_per_round);
    json["seconds"] = {{"plain", json_of(r.plain)}, {"speculative", json_of(first.seconds)}};
    json["drafts"] = list_of(r.drafts, each);
  }
  if (!r.token_tests.empty()) json["token_tests"] = list_of(r.token_tests, each);
  if (!r.bets.empty()) json["bets"] = list_of(r.bets, each);
  if (!r.divergences.empty()) json["divergences"] = list_of(r.divergences, each);
  if (!r.differences.empty()) json["differences"] = list_of(r.differences, each);
  if (!r.matrix.rows.empty()) json["matrix"] = json_of(r.matrix);
  if (!r.trials.empty()) json["trials"] = list_of(r.trials, each);
  json["runs"] = r.runs;
  // A path may contain bytes that are not UTF-8; they are replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace draftproof
