// SPDX-License-Identifier: MIT
// `draftproof campaign`: many trials of `verify`, as a file says, into one report.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ref/ranks/process_ranks.h"
#include "tools/campaign/campaign_plan.h"
#include "tools/campaign/campaign_report.h"
#include "tools/campaign/campaign_results.h"
#include "tools/campaign/dealing.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/report_files.h"
#include "tools/verify_plan.h"

namespace draftproof {
namespace {

struct CampaignOptions {
  std::string file;
  std::string results;
  ReportFileNames files;
  bool quiet = false;
};

/// Says how far a campaign is: on a terminal in a line that is rewritten, else in a line a minute, for a log.
class CampaignProgress {
 public:
  CampaignProgress(std::size_t all, bool quiet)
      : line_(quiet), logs_(!quiet && isatty(STDERR_FILENO) == 0), all_(all) {}

  /// A trial that an earlier attempt made.
  void add_earlier(const TrialRecord& record) {
    add(&record);
    ++before_;
  }
  /// nullptr: it has no verdict.
  void add(const TrialRecord* record) {
    ++done_;
    if (record == nullptr || record->verdict != name_of(ReportVerdict::pass_exact)) ++not_passed_;
  }

  void show() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> elapsed = now - begin_;
    std::string text = fmt::format("{} of {} trials", done_, all_);
    if (not_passed_ > 0) text += fmt::format(", {} not passed", not_passed_);
    if (done_ > before_) {
      const double each = elapsed.count() / static_cast<double>(done_ - before_);
      text += fmt::format("; {} left", in_words(each * static_cast<double>(all_ - done_)));
    }
    line_.show(text);
    if (!logs_ || now - logged_ < std::chrono::minutes(1)) return;
    logged_ = now;
    fmt::print(stderr, "{}\n", text);
  }

  void clear() { line_.show(""); }

 private:
  Progress line_;
  bool logs_;
  std::size_t all_;
  std::size_t before_ = 0;  // trials that an earlier attempt made
  std::size_t done_ = 0;
  std::size_t not_passed_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point logged_ = begin_;
};

Exit campaign(const CampaignOptions& options) {
  const CampaignPlan plan = read_campaign(options.file);
  const std::filesystem::path folder = options.results.empty()
                                           ? std::filesystem::path(options.file).replace_extension(".results")
                                           : std::filesystem::path(options.results);
  ReportFiles files(options.files, plan.sources);
  CampaignResults results(folder, plan);
  CampaignProgress progress(plan.trials.size(), options.quiet);
  std::vector<const CampaignTrial*> left;
  for (const CampaignTrial& trial : plan.trials) {
    if (const TrialRecord* const record = results.of(trial)) progress.add_earlier(*record);
    else left.push_back(&trial);
  }
  const std::atomic<bool>* const interrupted = watch_for_interrupt();
  std::map<std::string, std::string> complaints;
  const auto take = [&](const CampaignTrial& trial, const TrialResult& result) {
    if (result.report.empty()) complaints[trial.id] = result.complaint;
    else results.add(trial, result);
    progress.add(results.of(trial));
  };
  const auto wait = [&] {
    progress.show();
    return !interrupted->load();
  };
  deal(left, process_mail(), take, wait);
  progress.clear();
  if (*interrupted) {
    fmt::print(stderr, "Interrupted; the same command goes on with the trials that are left.\n");
    return Exit::undecided;
  }
  const Report report = report_of_campaign(options.file, plan, results, complaints);
  files.write(report, options.quiet);
  return exit_of(report.verdict);
}

}  // namespace

void add_campaign(Command& app) {
  auto options = std::make_shared<CampaignOptions>();
  Command& command = app.subcommand(
      "campaign", "verify many models, drafts, rules, samplings and prompts, or servers, as a file says");
  command.option("FILE", options->file, "what to verify, as JSON (docs/campaign.md)").required();
  add_report_options(command, options->files);
  command.option("--results FOLDER", options->results,
                 "where results are kept, and found again by a campaign that was killed; left out: beside FILE, with "
                 ".results in place of .json");
  command.flag("--quiet", options->quiet, "print nothing but errors");
  command.action([options] { return campaign(*options); });
}

}  // namespace draftproof
