// SPDX-License-Identifier: MIT
// SARIF 2.1.0 (OASIS), as code hosts show it beside the lines of a file.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "oracle/report/report.h"
#include "ref/base/sha256.h"

namespace draftproof {
namespace {

using Json = nlohmann::ordered_json;

/// Returns a name of the failure that does not depend on the file's name or the line in it.
std::string fingerprint_of(const Finding& finding) {
  const Failure& failure = *finding.failure;
  Sha256 hash;
  for (const std::string& part : {finding.check, failure.run, std::to_string(failure.round),
                                  std::to_string(failure.position), failure.expected, failure.observed}) {
    hash.add(std::to_string(part.size()) + ":" + part);  // different lists of parts give different texts
  }
  return hash.hex();
}

/// Returns a URI reference: bytes that a URI may not contain are written as %NN.
std::string uri_of(const std::string& path) {
  constexpr const char* digits = "0123456789ABCDEF";
  std::string uri;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain) {
      uri += c;
    } else {
      uri += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return uri;
}

Json rule_of(const Finding& finding) {
  return {{"id", finding.check},
          {"shortDescription", {{"text", finding.check}}},
          {"fullDescription", {{"text", "Can be at fault: " + finding.failure->blames}}},
          {"help",
           {{"text", "Can be at fault: " + finding.failure->blames +
                         ". Cannot be at fault: " + finding.failure->clears + "."}}},
          {"defaultConfiguration", {{"level", "error"}}}};
}

Json result_of(const Finding& finding, const std::string& file, std::size_t rule) {
  const Failure& failure = *finding.failure;
  std::string message = finding.message;
  for (const std::string& fact : failure.facts) message += "; " + fact;
  const Json place = {{"artifactLocation", {{"uri", uri_of(file)}}},
                      {"region", {{"startLine", std::max<std::int64_t>(1, failure.line)}}}};
  return {{"ruleId", finding.check},
          {"ruleIndex", rule},
          {"level", finding.outcome == Outcome::perf_regression ? "warning" : "error"},
          {"message", {{"text", message}}},
          {"locations", Json::array({Json{{"physicalLocation", place}}})},
          {"partialFingerprints", {{"draftproofCase/v1", fingerprint_of(finding)}}}};
}

/// Returns a finding about the whole trace, for what no single line shows.
Finding finding_of_tokens(const Report& r) {
  Finding finding{.check = "token_test", .outcome = Outcome::fail, .message = r.reason};
  finding.failure = Failure{.expected = "tokens with the distribution p",
                            .observed = r.token_tests.empty() ? r.reason : r.token_tests.front().suspect,
                            .blames = "the rule, the random draws, the stated q",
                            .clears = "nothing, because tokens alone do not show where they come from"};
  return finding;
}

}  // namespace

std::string report_sarif(const Report& r) {
  Json rules = Json::array();
  Json results = Json::array();
  std::vector<std::string> ids;
  std::vector<Finding> failures;
  std::copy_if(r.findings.begin(), r.findings.end(), std::back_inserter(failures),
               [](const Finding& finding) { return finding.failure.has_value(); });
  if (r.verdict == ReportVerdict::bug_stat) failures.push_back(finding_of_tokens(r));
  for (const Finding& finding : failures) {
    auto rule = std::find(ids.begin(), ids.end(), finding.check);
    if (rule == ids.end()) {
      rules.push_back(rule_of(finding));
      rule = ids.insert(ids.end(), finding.check);
    }
    results.push_back(result_of(finding, r.subject, static_cast<std::size_t>(rule - ids.begin())));
  }
  Json invocation = {{"executionSuccessful", r.verdict != ReportVerdict::invalid_trace},
                     {"exitCode", exit_status(r.verdict)}};
  Json notifications = Json::array();
  const auto notify = [&](const char* level, const std::string& text) {
    notifications.push_back({{"level", level}, {"message", {{"text", text}}}});
  };
  if (!r.reason.empty()) {
    notify(r.verdict == ReportVerdict::invalid_trace ? "error" : "note", name_of(r.verdict) + (": " + r.reason));
  }
  for (const std::string& what : r.unproved) notify("note", "not proved: " + what);
  if (!notifications.empty()) invocation["toolExecutionNotifications"] = notifications;
  const Json run = {{"tool", {{"driver", {{"name", "draftproof"}, {"version", r.version}, {"rules", rules}}}}},
                    {"invocations", Json::array({invocation})},
                    {"columnKind", "utf16CodeUnits"},
                    {"results", results}};
  const Json json = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace draftproof
