// SPDX-License-Identifier: MIT
// What a campaign file asks for (docs/campaign.md): trials in one fixed order. A trial is one command line of `verify`,
// so it is proved as any other, and whoever reads of it can make it again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace draftproof {

struct CampaignTrial {
  std::string id;                  // of its words, so of what it is: 16 hexadecimal digits
  std::vector<std::string> words;  // of the command line, `verify` first
  std::string series;              // what it is but for prompt and seed, for people; of an endpoint its address
  bool of_endpoint = false;
  bool sampled = false;  // tokens of a draft are drawn: they are bet on

  /// The command line, for a shell.
  std::string command() const;
};

struct CampaignPlan {
  std::vector<CampaignTrial> trials;  // with different ids
  std::vector<std::string> sources;   // files and folders that are read
  std::string digest;                 // of the trials, the models and this build: results of another one are others
};

/// Throws Error, naming file and field, for what is no campaign.
CampaignPlan read_campaign(const std::filesystem::path& file);

}  // namespace draftproof
