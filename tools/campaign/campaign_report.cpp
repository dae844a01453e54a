// SPDX-License-Identifier: MIT
#include "tools/campaign/campaign_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "oracle/sequential/pooled_evidence.h"

namespace draftproof {
namespace {

constexpr double campaign_alpha = 1e-9;  // of a false alarm, whatever the number of bets

/// What all trials say of one check.
struct CheckSum {
  std::string name;
  long trials = 0;
  long examined = 0;
  bool fails = false;
};

/// Adds up the trials, in their order.
class CampaignSum {
 public:
  explicit CampaignSum(Report& report) : report_(report) {}

  void add(const CampaignTrial& trial, const TrialRecord& record);
  void add_without_verdict(const CampaignTrial& trial, const std::string& complaint);
  void finish();

 private:
  CheckSum& sum_of(const std::string& check);
  void add_failure(const TrialRecord& record);
  void finish_checks();
  void finish_bets();
  ReportVerdict verdict() const;
  int count(const char* verdict) const;

  Report& report_;
  std::vector<CheckSum> checks_;
  std::vector<std::pair<std::string, std::vector<const TrialRecord*>>> series_;  // that were bet on, by name
  std::vector<const TrialRecord*> bet_on_;
  bool alarm_ = false;
  double output_tokens_ = 0;
  double drafted_ = 0;
  double accepted_ = 0;
};

CheckSum& CampaignSum::sum_of(const std::string& check) {
  const auto found = std::ranges::find(checks_, check, &CheckSum::name);
  return found == checks_.end() ? checks_.emplace_back(CheckSum{.name = check}) : *found;
}

void CampaignSum::add(const CampaignTrial& trial, const TrialRecord& record) {
  TrialSummary summary = {.id = trial.id,
                          .command = trial.command(),
                          .verdict = record.verdict,
                          .reason = record.reason,
                          .output_tokens = record.output_tokens,
                          .drafted = record.drafted,
                          .accepted = record.accepted};
  for (const Finding& finding : record.findings) {
    CheckSum& sum = sum_of(finding.check);
    sum.fails = sum.fails || finding.failure;
    if (finding.failure) summary.failed.push_back(finding.check);
    if (finding.outcome != Outcome::pass) continue;
    ++sum.trials;
    sum.examined += finding.examined;
  }
  add_failure(record);
  if (record.verdict == name_of(ReportVerdict::vacuous)) {
    report_.unproved.push_back(fmt::format("trial {}, {}: {}", trial.id, trial.series, record.reason));
  }
  output_tokens_ += static_cast<double>(record.output_tokens);
  drafted_ += static_cast<double>(record.drafted);
  accepted_ += static_cast<double>(record.accepted);
  report_.trials.push_back(std::move(summary));
  if (record.bet_on == 0) return;
  const auto name = [](const auto& series) { return series.first; };
  auto series = std::ranges::find(series_, trial.series, name);
  if (series == series_.end()) series = series_.insert(series_.end(), {trial.series, {}});
  series->second.push_back(&record);
  bet_on_.push_back(&record);
}

/// Of a trial that fails, the failure that costs the most: one of the text before one of the draft alone.
void CampaignSum::add_failure(const TrialRecord& record) {
  for (const Outcome outcome : {Outcome::fail, Outcome::perf_regression}) {
    const auto found = std::ranges::find(record.findings, outcome, &Finding::outcome);
    if (found == record.findings.end()) continue;
    report_.findings.push_back(*found);
    report_.findings.back().message = message_of(*found->failure);
    return;
  }
}

void CampaignSum::add_without_verdict(const CampaignTrial& trial, const std::string& complaint) {
  report_.unproved.push_back(fmt::format("trial {}, {}: {}", trial.id, trial.series, complaint));
  report_.trials.push_back({.id = trial.id, .command = trial.command(), .verdict = "", .reason = complaint});
}

void CampaignSum::finish_checks() {
  for (const CheckSum& sum : checks_) {
    if (sum.fails) continue;
    const std::string message =
        fmt::format("{} comparisons in {} {}", sum.examined, sum.trials, sum.trials == 1 ? "trial" : "trials");
    report_.findings.push_back({.check = sum.name,
                                .outcome = sum.trials > 0 ? Outcome::pass : Outcome::vacuous,
                                .examined = sum.examined,
                                .message = message});
  }
}

/// Trials have random numbers of their own, so what is found in them multiplies: in each series, and in all.
void CampaignSum::finish_bets() {
  if (bet_on_.empty()) return;
  const double alpha = campaign_alpha / static_cast<double>(series_.size() + 1);
  const auto pooled = [&](const std::vector<const TrialRecord*>& records) {
    PooledEvidence evidence(alpha);
    for (const TrialRecord* const record : records) evidence.add(record->by_bet, record->bet_on);
    alarm_ = alarm_ || evidence.alarm();
    return evidence;
  };
  const PooledEvidence all = pooled(bet_on_);
  report_.token_tests = {{.tokens = all.tokens(),
                          .alpha = alpha,
                          .e_value = all.e_value(),
                          .smallest_deviation = all.smallest_deviation(),
                          .suspect = all.suspect(),
                          .curve = all.curve()}};
  for (const auto& [name, records] : series_) {
    const PooledEvidence evidence = pooled(records);
    report_.bets.push_back({.about = name,
                            .observed = evidence.tokens(),
                            .alpha = alpha,
                            .e_value = evidence.e_value(),
                            .alarm = evidence.alarm(),
                            .message = evidence.describe()});
  }
}

int CampaignSum::count(const char* verdict) const {
  return static_cast<int>(std::ranges::count(report_.trials, verdict, &TrialSummary::verdict));
}

ReportVerdict CampaignSum::verdict() const {
  for (const ReportVerdict worst : {ReportVerdict::bug_proven, ReportVerdict::bug_stat}) {
    if (count(name_of(worst)) > 0) return worst;
  }
  if (alarm_) return ReportVerdict::bug_stat;
  if (count(name_of(ReportVerdict::perf_regression)) > 0) return ReportVerdict::perf_regression;
  if (count("") > 0) return ReportVerdict::undecided;
  return count(name_of(ReportVerdict::pass_exact)) > 0 ? ReportVerdict::pass_exact : ReportVerdict::vacuous;
}

void CampaignSum::finish() {
  finish_checks();
  finish_bets();
  const auto trials = static_cast<int>(report_.trials.size());
  const int failed = count(name_of(ReportVerdict::bug_proven)) + count(name_of(ReportVerdict::bug_stat)) +
                     count(name_of(ReportVerdict::perf_regression));
  report_.examined = {{"trials", trials},
                      {"passed", count(name_of(ReportVerdict::pass_exact))},
                      {"failed", failed},
                      {"vacuous", count(name_of(ReportVerdict::vacuous))},
                      {"without a verdict", count("")},
                      {"output tokens", output_tokens_},
                      {"draft tokens", drafted_},
                      {"accepted", accepted_}};
  report_.verdict = verdict();
  if (report_.verdict == ReportVerdict::undecided) {
    report_.reason = fmt::format("{} of {} trials have no verdict; the same command makes them", count(""), trials);
  } else if (report_.verdict == ReportVerdict::vacuous) {
    report_.reason = "every trial is vacuous";
  } else if (report_.verdict == ReportVerdict::bug_stat) {
    report_.reason = "the tokens of trials together do not have the target's distribution";
  }
}

}  // namespace

Report report_of_campaign(const std::string& file, const CampaignPlan& plan, const CampaignResults& results,
                          const std::map<std::string, std::string>& complaints) {
  Report report;
  report.command = "campaign";
  report.version = DRAFTPROOF_VERSION;
  report.subject = file;
  CampaignSum sum(report);
  for (const CampaignTrial& trial : plan.trials) {
    const TrialRecord* const record = results.of(trial);
    const auto complaint = complaints.find(trial.id);
    if (record != nullptr) sum.add(trial, *record);
    else sum.add_without_verdict(trial, complaint == complaints.end() ? "was not made" : complaint->second);
  }
  sum.finish();
  return report;
}

}  // namespace draftproof
