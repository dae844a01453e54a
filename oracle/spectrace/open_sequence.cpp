// SPDX-License-Identifier: MIT
#include "oracle/spectrace/open_sequence.h"

#include <algorithm>
#include <limits>

#include "oracle/spectrace/nearby_distribution.h"

namespace draftproof::spectrace {

bool OpenSequence::draws_from_softmax() const {
  const Sampling& s = declared.sampling;
  return !greedy() && s.temperature == 1 && !cuts(s) && !declared.changes_logits();
}

std::optional<RoundedDistribution> OpenSequence::distribution_of_top(const RoundEvent& round, std::size_t row,
                                                                     const Header& header) const {
  if (row >= round.top_logprobs.size() || round.top_logprobs[row].tokens.empty()) return std::nullopt;
  if (!declared.logprobs_after_sampling && !draws_from_softmax()) return std::nullopt;
  return top_logprobs.distribution(round.top_logprobs[row], header);
}

std::int64_t OpenSequence::left() const {
  return declared.max_new_tokens ? std::max<std::int64_t>(*declared.max_new_tokens - emitted(), 0)
                                 : std::numeric_limits<std::int64_t>::max();
}

bool OpenSequence::stops_at(Token token) const {
  return declared.stop_tokens && std::ranges::find(*declared.stop_tokens, token) != declared.stop_tokens->end();
}

bool OpenSequence::is_evidence(std::int64_t position) const {
  const bool may_be_missing =
      declared.hides_stop_tokens() && position == static_cast<std::int64_t>(declared.prompt.size());
  return !may_be_missing && fresh(position) && position < decided_end;
}

std::int64_t OpenSequence::rows_of_the_text(const RoundEvent& round) const {
  const auto emitted_now = static_cast<std::int64_t>(round.emitted.size());
  if (!round.has_draft_tokens) return emitted_now;
  const bool together = rule() == AcceptanceRule::block;
  const std::vector<Token>& tokens = together ? round.draft_tokens : round.accepted_tokens;
  const auto count = static_cast<std::int64_t>(tokens.size());
  std::int64_t rows = std::min(together ? count : count + 1, left());
  const auto last = tokens.begin() + std::min(count, rows);
  const auto stop = std::find_if(tokens.begin(), last, [&](Token token) { return stops_at(token); });
  if (stop != last) rows = stop - tokens.begin() + 1;
  const bool hidden_stop = declared.hides_stop_tokens() && emitted_now + 1 == rows;
  return together || hidden_stop ? rows : std::min(rows, emitted_now);
}

}  // namespace draftproof::spectrace
