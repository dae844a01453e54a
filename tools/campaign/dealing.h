// SPDX-License-Identifier: MIT
// Who makes which trial of a campaign: whoever is free takes the next one. Rank 0 deals and keeps what comes back, and
// makes trials as well; the other ranks, where mpirun has started some, make what they are told.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ref/ranks/mail.h"
#include "tools/campaign/campaign_plan.h"
#include "tools/campaign/trial_process.h"

namespace draftproof {

/// Of rank 0: makes the trials. `take` is called with each as it ends, `wait` again and again in between; where it
/// returns false the rest is left. `mail`: nullptr where there are no other ranks.
void deal(const std::vector<const CampaignTrial*>& trials, Mail* mail,
          const std::function<void(const CampaignTrial&, const TrialResult&)>& take, const std::function<bool()>& wait);

/// Of the others, until rank 0 lets them go.
void make_dealt_trials(Mail& mail);
/// Of rank 0, whatever happened.
void end_dealing(Mail& mail);

}  // namespace draftproof
