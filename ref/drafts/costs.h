// SPDX-License-Identifier: MIT
// What rounds of decoding take: what a tuner expects, and what the clock says.
#pragma once

#include <vector>

namespace draftproof {

/// What a draft computes for a proposal.
enum class ProposalWork {
  none,      // it looks something up
  one_pass,  // one pass of a network, however many draft tokens
  passes,    // one for each draft token, and one for the row before which it ends the proposal
  as_asked,  // one for each draft token that it is asked for, however many it proposes
};

/// As traces state it.
constexpr const char* name_of(ProposalWork work) {
  constexpr const char* names[] = {"none", "one_pass", "passes", "as_asked"};
  return names[static_cast<int>(work)];
}

/// Seconds, or any other unit. [n] is for n draft tokens, from 0 on.
struct DraftCosts {
  static constexpr int observed = 2;  // committed tokens of a round that `draft` counts with

  std::vector<double> verify;              // a verification pass over the anchor and n draft tokens
  std::vector<std::vector<double>> draft;  // [stage][n]: what a round takes more, with its proposal and observation
  std::vector<double> reading;             // [stage]: each committed token more that the stage has yet to observe
  std::vector<ProposalWork> work = {};     // [stage]; empty: no stage has passes

  bool operator==(const DraftCosts&) const = default;
};

/// What one round took by the clock.
struct RoundSeconds {
  double verify = 0;  // the verification pass
  double draft = 0;   // the proposal, with what the draft observed for it

  bool operator==(const RoundSeconds&) const = default;
};

}  // namespace draftproof
