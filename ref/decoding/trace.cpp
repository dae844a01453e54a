// SPDX-License-Identifier: MIT
#include "ref/decoding/trace.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof {

bool Request::stops_at(Token token) const noexcept {
  return std::find(stops.begin(), stops.end(), token) != stops.end();
}

const char* name_of(Verification verification) noexcept {
  constexpr const char* names[] = {"batched", "serial", "redecode"};
  return names[static_cast<std::size_t>(verification)];
}

std::vector<std::string> names_of_verifications() {
  std::vector<std::string> names;
  for (const Verification verification : all_verifications) names.emplace_back(name_of(verification));
  return names;
}

Verification verification_by_name(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(all_verifications, [&](Verification one) { return name == name_of(one); });
  REQUIRE(found != std::end(all_verifications), "the name is one of the list");
  return *found;
}

const char* name_of(Finish finish) noexcept {
  switch (finish) {
    case Finish::unfinished: return "unfinished";
    case Finish::stop: return "stop";
    case Finish::length: return "length";
    case Finish::cancelled: return "cancelled";
  }
  return "unfinished";
}

bool is_beyond_draft(const Trace& trace, const Round& round) { return round.position >= trace.draft_reach; }

int rounds_beyond_draft(const Trace& trace) {
  const auto beyond = [&](const Round& round) { return is_beyond_draft(trace, round); };
  return static_cast<int>(std::ranges::count_if(trace.rounds, beyond));
}

int from_prediction(const Trace& trace, const Round& round) {
  const Proposal& proposal = round.proposal;
  const bool is_first = proposal.asked.size() == 1 && !trace.own_stages.empty();
  return is_first && trace.own_stages.front() == prediction_stage ? proposal.size() - proposal.forced : 0;
}

Statistics recounted(const Trace& trace) {
  Statistics counts;
  for (const Round& round : trace.rounds) {
    ++counts.rounds;
    const int draft_tokens = round.proposal.size();
    if (draft_tokens == 0) continue;
    ++counts.iterations;
    counts.drafted += draft_tokens;
    counts.accepted += round.accepted;
    (round.all_accepted() ? counts.all_accepted : counts.mismatches) += 1;
    (trace.execution.verification == Verification::serial ? counts.serial : counts.batched) += 1;
    const int kept = static_cast<int>(round.emitted.size());
    if (trace.execution.verification == Verification::redecode && kept <= draft_tokens) counts.redecoded += kept;
  }
  return counts;
}

std::vector<StageStatistics> statistics_by_stage(const Trace& trace) {
  std::vector<StageStatistics> stages(trace.draft_times.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages[i].times = trace.draft_times[i];
    if (trace.final_positions.size() != stages.size()) continue;  // a stage keeps nothing of the text
    const DraftPositions& at = trace.final_positions[i];
    stages[i].positions = at.held + at.unread;
    stages[i].passed = at.passed;
  }
  const auto count_at = [](std::vector<int>& counts, int depth) {
    if (static_cast<int>(counts.size()) <= depth) counts.resize(static_cast<std::size_t>(depth) + 1);
    ++counts[static_cast<std::size_t>(depth)];
  };
  for (const Round& round : trace.rounds) {
    const Proposal& proposal = round.proposal;
    if (proposal.size() == 0) continue;
    const auto index = static_cast<std::size_t>(proposal.stage());
    if (stages.size() <= index) stages.resize(index + 1);
    StageStatistics& stage = stages[index];
    ++stage.drafts;
    stage.drafted += proposal.size();
    stage.accepted += round.accepted;
    int deepest = -1;
    for (int node = 0; node < proposal.size(); ++node) deepest = std::max(deepest, proposal.depth(node));
    for (int depth = 0; depth <= deepest; ++depth) count_at(stage.drafted_by_depth, depth);
    for (int depth = 0; depth < round.accepted; ++depth) count_at(stage.accepted_by_depth, depth);
    stage.accepted_by_depth.resize(stage.drafted_by_depth.size());
  }
  return stages;
}

}  // namespace draftproof
