// SPDX-License-Identifier: MIT
#include "oracle/exact/coverage.h"

#include <algorithm>

#include "oracle/plain/plain.h"

namespace draftproof {
namespace {

constexpr int depths = 4;

Event at_depth(Event first, int place) { return static_cast<Event>(static_cast<int>(first) + place); }

std::vector<Event> all_of(Possible possible) {
  std::vector<Event> list;
  for (Event event{}; event != Event::count; event = at_depth(event, 1)) {
    const bool of_trees = event >= Event::sibling_accepted;
    const bool of_rejection = event >= Event::accepted_by_coin && !of_trees;
    if ((possible.trees || !of_trees) && (possible.rejection || !of_rejection)) list.push_back(event);
  }
  return list;
}

}  // namespace

const char* name_of(Event event) noexcept {
  switch (event) {
    case Event::first_accepted: return "a first draft token stands";
    case Event::second_accepted: return "a second draft token stands";
    case Event::third_accepted: return "a third draft token stands";
    case Event::fourth_accepted: return "a fourth draft token stands";
    case Event::first_rejected: return "a first draft token falls";
    case Event::second_rejected: return "a second draft token falls";
    case Event::third_rejected: return "a third draft token falls";
    case Event::fourth_rejected: return "a fourth draft token falls";
    case Event::rejected_twice: return "two refusals in a row";
    case Event::all_accepted: return "a block stands whole";
    case Event::no_node: return "a round without draft tokens";
    case Event::nothing_drafted_after_all: return "no draft tokens after a block that stood whole";
    case Event::other_length: return "a block of another length";
    case Event::cut_by_budget: return "a block cut by the budget";
    case Event::filled_by_block: return "a block that fills the budget";
    case Event::cannot_be_said: return "a draft token that the target cannot say";
    case Event::named: return "a draft token from a point";
    case Event::drawn_from_p: return "a draft token from the target's own distribution";
    case Event::drawn_from_other: return "a draft token from another distribution";
    case Event::stop_accepted: return "a stop token among the draft tokens that stand";
    case Event::stop_rejected: return "a stop token that is drafted and falls";
    case Event::stop_after_refusal: return "a stop token in place of a draft token";
    case Event::stop_after_all: return "a stop token after a block";
    case Event::penalized_by_draft: return "a row penalized for a draft token before it";
    case Event::stopped: return "a text that ends in a stop token";
    case Event::cut: return "a text that is cut";
    case Event::accepted_by_coin: return "a coin that lets a draft token stand";
    case Event::rejected_by_coin: return "a coin that lets a draft token fall";
    case Event::one_left: return "one token left after a refusal";
    case Event::several_left: return "several tokens left after a refusal";
    case Event::sibling_accepted: return "a draft token that stands in the place of the first there";
    case Event::sibling_accepted_below: return "two such draft tokens, one below the other";
    case Event::accepted_below_sibling: return "a first draft token that stands below such a draft token";
    case Event::no_sibling_accepted: return "several draft tokens in one place of which none stands";
    case Event::count: break;
  }
  return "nothing";
}

void Coverage::add(const Coverage& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::vector<Event> Coverage::missing(Possible possible) const {
  std::vector<Event> list = all_of(possible);
  std::erase_if(list, [&](Event event) { return (*this)[event] > 0; });
  return list;
}

Event Coverage::rarest(Possible possible) const {
  const std::vector<Event> list = all_of(possible);
  return *std::min_element(list.begin(), list.end(), [&](Event a, Event b) { return (*this)[a] < (*this)[b]; });
}

CoverageCounter::CoverageCounter(Model& target, const Request& request, const Variation& variation)
    : target_(target), request_(request), rejection_(!variation.promises_tokens()) {}

const CoverageCounter::Row& CoverageCounter::row_after(std::span<const Token> text, std::size_t drafted) {
  const auto [place, fresh] = rows_.try_emplace({drafted, std::vector(text.begin(), text.end())});
  Row& row = place->second;
  if (fresh) {
    const std::vector<float> logits = logits_after(target_, text);
    row.p = distribution_of(logits, request_.sampling, {text, {}});
    const std::span<const Token> committed = text.first(text.size() - drafted);
    row.penalized_by_draft = drafted > 0 && row.p != distribution_of(logits, request_.sampling, {committed, {}});
  }
  return row;
}

void CoverageCounter::add_draft_token(const Round& round, std::span<const Token> text, int place, bool accepted) {
  const auto index = static_cast<std::size_t>(place);
  const int depth = round.proposal.depth(place);
  const Token draft_token = round.proposal.tokens[index];
  const Distribution& p = row_after(text, static_cast<std::size_t>(depth)).p;
  const Distribution& q = round.proposal.drawn_from[index];
  const std::uint64_t wanted = p.weight(draft_token);
  if (depth < depths) met_.add(at_depth(accepted ? Event::first_accepted : Event::first_rejected, depth));
  if (wanted == 0) met_.add(Event::cannot_be_said);
  met_.add(q.is_point() ? Event::named : q == p ? Event::drawn_from_p : Event::drawn_from_other);
  if (!accepted && request_.stops_at(draft_token)) met_.add(Event::stop_rejected);
  if (!rejection_) return;
  if (wanted > 0 && wanted < q.weight(draft_token)) met_.add(accepted ? Event::accepted_by_coin : Event::rejected_by_coin);
  if (!accepted) met_.add(Residual(p, q).tokens().size() > 1 ? Event::several_left : Event::one_left);
}

void CoverageCounter::add(const Trace& trace) {
  const auto known = [&](Token token) { return token >= 0 && token < target_.vocabulary(); };
  std::vector<Token> text = request_.prompt;
  const std::size_t end = text.size() + static_cast<std::size_t>(request_.max_new_tokens);
  int length_before = 0;
  int longest = 0;
  bool rejected_before = false;
  bool all_before = false;
  for (const Round& round : trace.rounds) {
    const std::vector<Token>& draft_tokens = round.proposal.tokens;
    const int length = round.proposal.size();
    const int accepted = round.verdict.accepted;
    const int last = round.verdict.last;
    // What a wrong decoder does is for the law to say; there is nothing to count in what is no round at all.
    if (text.size() >= end || accepted < 0 || last >= length || round.proposal.depth(last) + 1 != accepted ||
        round.proposal.drawn_from.size() != draft_tokens.size() || round.emitted.empty() ||
        !std::all_of(draft_tokens.begin(), draft_tokens.end(), known) ||
        !std::all_of(round.emitted.begin(), round.emitted.end(), known)) {
      return;
    }
    const int room = static_cast<int>(end - text.size()) - 1;  // for draft tokens
    const bool rejected = !round.all_accepted();
    const bool all = length > 0 && !rejected && static_cast<int>(round.emitted.size()) == accepted + 1;
    const std::vector<int> path = round.proposal.path_to(last);
    std::vector<Token> prefix = text;
    int above = -1;
    bool by_another = false;  // so `above` stood
    for (std::size_t depth = 0; depth <= path.size(); ++depth) {
      if (depth > 0 && row_after(prefix, depth).penalized_by_draft) met_.add(Event::penalized_by_draft);
      const int first = round.proposal.first_child(above);
      if (first == Proposal::no_node) break;
      const bool several = round.proposal.next_sibling(first) != Proposal::no_node;
      const bool first_accepted = depth < path.size() && path[depth] == first;
      add_draft_token(round, prefix, first, first_accepted);
      if (first_accepted && by_another) met_.add(Event::accepted_below_sibling);
      if (depth == path.size()) {
        if (several) met_.add(Event::no_sibling_accepted);
        break;
      }
      if (!first_accepted) met_.add(Event::sibling_accepted);
      if (!first_accepted && by_another) met_.add(Event::sibling_accepted_below);
      by_another = !first_accepted;
      above = path[depth];
      prefix.push_back(draft_tokens[static_cast<std::size_t>(above)]);
    }
    if (rejected && rejected_before) met_.add(Event::rejected_twice);
    if (all) met_.add(Event::all_accepted);
    if (length == 0 && room > 0) met_.add(Event::no_node);
    if (length == 0 && room > 0 && all_before) met_.add(Event::nothing_drafted_after_all);
    if (length > 0 && length_before > 0 && length != length_before && length < room) met_.add(Event::other_length);
    if (length > 0 && length == room && length < longest) met_.add(Event::cut_by_budget);
    if (all && length == room) met_.add(Event::filled_by_block);
    if (request_.stops_at(round.emitted.back())) {
      const bool drafted = round.emitted.size() <= static_cast<std::size_t>(accepted);
      if (drafted) met_.add(Event::stop_accepted);
      if (!drafted && rejected) met_.add(Event::stop_after_refusal);
      if (!drafted && all) met_.add(Event::stop_after_all);
    }
    text.insert(text.end(), round.emitted.begin(), round.emitted.end());
    length_before = length;
    longest = std::max(longest, length);
    rejected_before = rejected;
    all_before = all;
  }
  met_.add(trace.finish == Finish::stop ? Event::stopped : Event::cut);
}

}  // namespace draftproof
