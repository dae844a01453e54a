// SPDX-License-Identifier: MIT
// The folder of a campaign's results: one file for each trial that has a verdict, written whole or not at all, so a
// campaign that is killed goes on with the trials that were not finished.
//
//     FOLDER/campaign.json          which campaign it is of
//     FOLDER/trials/ID.json         what `verify` reports of a trial
//     FOLDER/failures/ID/case.json  its smallest case, for `draftproof reproduce`
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "oracle/checks/check.h"
#include "tools/campaign/campaign_plan.h"
#include "tools/campaign/trial_process.h"

namespace draftproof {

/// What a campaign needs of a trial's report.
struct TrialRecord {
  std::string verdict;
  std::string reason;
  std::vector<Finding> findings;
  std::int64_t output_tokens = 0;
  std::int64_t drafted = 0;
  std::int64_t accepted = 0;
  long bet_on = 0;  // tokens
  std::vector<double> by_bet;
};

class CampaignResults {
 public:
  /// Creates the folder, or reads what it has of this campaign. Throws Error when it has another one's.
  CampaignResults(std::filesystem::path folder, const CampaignPlan& plan);

  /// nullptr: the trial has no verdict yet.
  const TrialRecord* of(const CampaignTrial& trial) const;
  /// Keeps the result of a trial, which has a verdict.
  void add(const CampaignTrial& trial, const TrialResult& result);

 private:
  std::filesystem::path file_of(const CampaignTrial& trial) const { return folder_ / "trials" / (trial.id + ".json"); }
  std::filesystem::path case_of(const CampaignTrial& trial) const { return folder_ / "failures" / trial.id; }
  void begin(const CampaignPlan& plan) const;
  void read(const CampaignTrial& trial);

  std::filesystem::path folder_;
  std::map<std::string, TrialRecord> records_;  // by id
};

}  // namespace draftproof
