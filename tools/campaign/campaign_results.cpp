// SPDX-License-Identifier: MIT
#include "tools/campaign/campaign_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/json.h"
#include "ref/formats/whole_file.h"
#include "tools/shell_word.h"

namespace draftproof {
namespace {

namespace files = std::filesystem;

constexpr const char* campaign_schema = "draftproof-campaign/1";
constexpr const char* trial_schema = "draftproof-trial/1";
constexpr std::size_t record_bytes_max = std::size_t{1} << 28;
constexpr std::int64_t count_max = std::numeric_limits<std::int64_t>::max();

void write_text(const files::path& file, const std::string& text) {
  replace_whole(file, [&](const files::path& partial) {
    std::ofstream stream(partial, std::ios::binary);
    stream << text;
    stream.close();
    if (!stream) throw Error(file.string() + ": cannot be written; is there room?");
  });
}

void create_folder(const files::path& folder) {
  std::error_code failure;
  files::create_directories(folder, failure);
  if (failure) throw Error(folder.string() + ": " + failure.message() + "; give another folder as --results");
}

std::vector<std::string> texts_of(const Json& list) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list[i].string());
  return texts;
}

double number_of(const Json& value) {
  if (!value.is_string()) return value.number();
  if (value.string() != "inf") value.fail("is no number");
  return std::numeric_limits<double>::infinity();
}

Outcome outcome_of(const Json& name) {
  constexpr std::array outcomes = {Outcome::pass, Outcome::fail, Outcome::vacuous, Outcome::perf_regression};
  const auto found = std::ranges::find_if(outcomes, [&](Outcome one) { return name.string() == name_of(one); });
  if (found == outcomes.end()) name.fail("is no outcome of a check");
  return *found;
}

Finding finding_of(const Json& check) {
  Finding finding = {.check = check.at("name").string(),
                     .outcome = outcome_of(check.at("outcome")),
                     .examined = static_cast<long>(check.at("examined").integer(0, count_max)),
                     .message = check.at("message").string()};
  const auto json = check.find("failure");
  if (!json) return finding;
  Failure failure = {.run = json->at("run").string()};
  if (const auto round = json->find("round")) failure.round = round->integer(0, count_max);
  if (const auto position = json->find("position")) failure.position = position->integer(0, count_max);
  failure.expected = json->at("expected").string();
  failure.observed = json->at("observed").string();
  failure.facts = texts_of(json->at("facts"));
  failure.blames = json->at("blames").string();
  failure.clears = json->at("clears").string();
  finding.failure = std::move(failure);
  return finding;
}

/// Of what `verify --endpoint` reports: one check, whose failure is the first wrong answer.
Finding finding_of_endpoint(const Json& report) {
  const Json differences = report.at("divergences");
  Finding finding = {.check = "answers_equal", .message = "the answers equal plain decoding"};
  finding.examined = 1;
  if (differences.size() == 0) return finding;
  const Json first = differences[0];
  finding.outcome = Outcome::fail;
  Failure failure = {.run = fmt::format("request {}", first.at("request").integer(0, count_max))};
  if (const auto place = first.find("token")) failure.position = place->integer(0, count_max);
  failure.expected = first.at("expected").string();
  failure.observed = first.at("received").string();
  failure.facts = {fmt::format("its {} is wrong", first.at("what").string()),
                   fmt::format("{} answers are", differences.size())};
  finding.message = message_of(failure);
  finding.failure = std::move(failure);
  return finding;
}

TrialRecord record_of(const Json& report, bool of_endpoint) {
  TrialRecord record;
  record.verdict = report.at("verdict").string();
  if (of_endpoint) {
    record.findings.push_back(finding_of_endpoint(report));
    return record;
  }
  record.reason = report.at("reason").string();
  const Json checks = report.at("checks");
  for (std::size_t i = 0; i < checks.size(); ++i) record.findings.push_back(finding_of(checks[i]));
  if (const auto tokens = report.find("output_tokens")) record.output_tokens = tokens->integer(0, count_max);
  if (const auto drafts = report.find("drafts")) {
    record.drafted = (*drafts)[0].at("drafted").integer(0, count_max);
    record.accepted = (*drafts)[0].at("accepted").integer(0, count_max);
  }
  if (const auto tests = report.find("token_tests")) {
    const Json test = (*tests)[0];
    record.bet_on = static_cast<long>(test.at("tokens").integer(0, count_max));
    const Json by_bet = test.at("by_bet");
    for (std::size_t i = 0; i < by_bet.size(); ++i) record.by_bet.push_back(number_of(by_bet[i]));
  }
  return record;
}

}  // namespace

CampaignResults::CampaignResults(files::path folder, const CampaignPlan& plan) : folder_(std::move(folder)) {
  begin(plan);
  for (const CampaignTrial& trial : plan.trials) {
    if (is_present(file_of(trial))) read(trial);
  }
}

void CampaignResults::begin(const CampaignPlan& plan) const {
  const files::path file = folder_ / "campaign.json";
  if (!is_present(file)) {
    create_folder(folder_);
    remove_leftovers(folder_);
    if (!files::is_empty(folder_)) {
      throw Error(folder_.string() +
                  ": has other files and no results of a campaign; give another folder as --results");
    }
    write_text(file, fmt::format("{{\"schema\": \"{}\", \"digest\": \"{}\"}}\n", campaign_schema, plan.digest));
  }
  const Json json = Json::read(file, record_bytes_max);
  if (json.at("schema").string() != campaign_schema) {
    throw Error(file.string() + ": has another schema than " + campaign_schema + "; give another folder as --results");
  }
  if (json.at("digest").string() != plan.digest) {
    throw Error(folder_.string() +
                ": has the results of another campaign, of other models, or of another build of draftproof; give "
                "another folder as --results, or remove this one");
  }
  create_folder(folder_ / "trials");
  remove_leftovers(folder_ / "trials");
}

void CampaignResults::read(const CampaignTrial& trial) {
  const Json json = Json::read(file_of(trial), record_bytes_max);
  if (json.at("schema").string() != trial_schema || json.at("trial").string() != trial.id) {
    json.fail("is no result of this trial; remove the file, and the trial is made again");
  }
  TrialRecord record = record_of(json.at("report"), trial.of_endpoint);
  const bool has_case = is_present(case_of(trial) / "case.json");
  for (Finding& finding : record.findings) {
    if (!finding.failure) continue;
    finding.failure->run = trial.series + ": " + finding.failure->run;
    finding.failure->reproduce =
        has_case ? "draftproof reproduce " + shell_word(case_of(trial).string()) : trial.command();
  }
  records_[trial.id] = std::move(record);
}

const TrialRecord* CampaignResults::of(const CampaignTrial& trial) const {
  const auto found = records_.find(trial.id);
  return found == records_.end() ? nullptr : &found->second;
}

void CampaignResults::add(const CampaignTrial& trial, const TrialResult& result) {
  if (result.reproducer.empty()) {
    std::error_code ignored;
    files::remove_all(case_of(trial), ignored);  // of an attempt that was killed
  } else {
    create_folder(case_of(trial));
    write_text(case_of(trial) / "case.json", result.reproducer);
  }
  write_text(file_of(trial), fmt::format("{{\"schema\": \"{}\", \"trial\": \"{}\", \"report\":\n{}}}\n", trial_schema,
                                         trial.id, result.report));
  read(trial);
}

}  // namespace draftproof
