// SPDX-License-Identifier: MIT
// The report of a campaign. It depends on the trials and on what they came to, and on nothing else: not on who made
// them, in which order, when, or in how many attempts.
#pragma once

#include <map>
#include <string>

#include "oracle/report/report.h"
#include "tools/campaign/campaign_results.h"

namespace draftproof {

/// `complaints`: of the trials that have no verdict, by id.
Report report_of_campaign(const std::string& file, const CampaignPlan& plan, const CampaignResults& results,
                          const std::map<std::string, std::string>& complaints);

}  // namespace draftproof
