// SPDX-License-Identifier: MIT
#include "oracle/same_history.h"

#include <algorithm>

namespace draftproof {
namespace {

std::string difference(const Round& expected, const Round& found) {
  const std::string where = "the round at position " + std::to_string(expected.position) + " ";
  if (found.position != expected.position || found.anchor != expected.anchor) return where + "begins elsewhere";
  if (found.logits != expected.logits) return where + "was judged by rows with other bits";
  if (found.targets != expected.targets) return where + "was judged by other distributions";
  if (found.verdict != expected.verdict || found.emitted != expected.emitted) return where + "was judged otherwise";
  if (found.cache != expected.cache || found.cache_length != expected.cache_length) return where + "left another cache";
  return "";
}

}  // namespace

std::string difference(const Trace& expected, std::size_t rounds, const Trace& found, bool whole,
                       bool tokens_promised) {
  std::size_t said = 0;  // tokens before the rest
  for (std::size_t i = 0; i < rounds; ++i) said += expected.rounds[i].emitted.size();
  const auto rest = expected.output.begin() + static_cast<std::ptrdiff_t>(said);
  const auto left = static_cast<std::size_t>(expected.output.end() - rest);

  std::size_t same = 0;
  bool same_guesses = true;
  for (; same < found.rounds.size() && rounds + same < expected.rounds.size(); ++same) {
    const Round& round = expected.rounds[rounds + same];
    const Proposal& proposal = found.rounds[same].proposal;
    same_guesses = round.proposal.tokens == proposal.tokens && round.proposal.drawn_from == proposal.drawn_from;
    if (!same_guesses) break;
    if (const std::string what = difference(round, found.rounds[same]); !what.empty()) return what;
  }
  if (!same_guesses && !tokens_promised) return "";
  if (found.output.size() > left || (whole && found.output.size() < left)) {
    return "it says " + std::to_string(found.output.size()) + " tokens, not " + std::to_string(left);
  }
  if (!std::equal(found.output.begin(), found.output.end(), rest)) return "it says other tokens";
  if (whole && (found.finish != expected.finish || found.resting_length != expected.resting_length)) {
    return "it ends otherwise";
  }
  return "";
}

}  // namespace draftproof
