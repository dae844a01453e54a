// SPDX-License-Identifier: MIT
#include "oracle/exact/coverage.h"

#include <algorithm>

#include "oracle/plain/plain.h"
#include "ref/acceptance/sampler.h"

namespace draftproof {
namespace {

constexpr int depths = 4;

CoverageEvent at_depth(CoverageEvent first, int depth) {
  return static_cast<CoverageEvent>(static_cast<int>(first) + depth);
}

std::vector<CoverageEvent> all_of(Possible possible) {
  std::vector<CoverageEvent> list;
  for (CoverageEvent event{}; event != CoverageEvent::count; event = at_depth(event, 1)) {
    const bool is_possible = event >= CoverageEvent::optional_end_accepted ? possible.constraints
                             : event >= CoverageEvent::sibling_accepted    ? possible.trees
                             : event >= CoverageEvent::accepted_by_coin    ? possible.rejection
                                                                           : true;
    if (is_possible) list.push_back(event);
  }
  return list;
}

}  // namespace

const char* name_of(CoverageEvent event) noexcept {
  switch (event) {
    case CoverageEvent::first_accepted: return "an accepted first draft token";
    case CoverageEvent::second_accepted: return "an accepted second draft token";
    case CoverageEvent::third_accepted: return "an accepted third draft token";
    case CoverageEvent::fourth_accepted: return "an accepted fourth draft token";
    case CoverageEvent::first_rejected: return "a rejected first draft token";
    case CoverageEvent::second_rejected: return "a rejected second draft token";
    case CoverageEvent::third_rejected: return "a rejected third draft token";
    case CoverageEvent::fourth_rejected: return "a rejected fourth draft token";
    case CoverageEvent::rejected_twice: return "rejections in two consecutive rounds";
    case CoverageEvent::all_accepted: return "a round that accepts all of its draft tokens";
    case CoverageEvent::nothing_drafted: return "a round without draft tokens";
    case CoverageEvent::nothing_drafted_after_all: return "no draft tokens after a round that accepted all of its own";
    case CoverageEvent::other_length: return "another number of draft tokens than the round before";
    case CoverageEvent::cut_by_budget: return "fewer draft tokens because of the budget";
    case CoverageEvent::budget_filled: return "a fully accepted round that fills the budget";
    case CoverageEvent::p_is_zero: return "a draft token with p = 0";
    case CoverageEvent::q_is_point: return "a draft token whose q is a point";
    case CoverageEvent::q_is_p: return "a draft token whose q is the target's p";
    case CoverageEvent::q_is_other: return "a draft token whose q is another distribution";
    case CoverageEvent::stop_accepted: return "an accepted stop token";
    case CoverageEvent::stop_rejected: return "a rejected stop token";
    case CoverageEvent::stop_after_rejection: return "a stop token in place of a rejected draft token";
    case CoverageEvent::stop_after_all: return "a stop token after all draft tokens were accepted";
    case CoverageEvent::penalized_by_draft: return "a row penalized for a draft token before it";
    case CoverageEvent::stopped: return "a text that ends in a stop token";
    case CoverageEvent::cut: return "a text that ends with the budget";
    case CoverageEvent::accepted_by_coin: return "a draft token accepted by its coin";
    case CoverageEvent::rejected_by_coin: return "a draft token rejected by its coin";
    case CoverageEvent::one_residual_token: return "a residual distribution with one token";
    case CoverageEvent::several_residual_tokens: return "a residual distribution with several tokens";
    case CoverageEvent::sibling_accepted: return "an accepted sibling of a first draft token";
    case CoverageEvent::sibling_accepted_below: return "an accepted sibling below an accepted sibling";
    case CoverageEvent::accepted_below_sibling: return "an accepted first draft token below an accepted sibling";
    case CoverageEvent::no_sibling_accepted: return "several siblings of which none is accepted";
    case CoverageEvent::optional_end_accepted: return "an accepted stop token where the constraint lets the text go on";
    case CoverageEvent::optional_end_rejected: return "a rejected stop token where the constraint lets the text end";
    case CoverageEvent::count: break;
  }
  return "nothing";
}

void Coverage::add(const Coverage& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::vector<CoverageEvent> Coverage::missing(Possible possible) const {
  std::vector<CoverageEvent> list = all_of(possible);
  std::erase_if(list, [&](CoverageEvent event) { return (*this)[event] > 0; });
  return list;
}

CoverageEvent Coverage::rarest(Possible possible) const {
  const std::vector<CoverageEvent> list = all_of(possible);
  return *std::min_element(list.begin(), list.end(),
                           [&](CoverageEvent a, CoverageEvent b) { return (*this)[a] < (*this)[b]; });
}

CoverageCounter::CoverageCounter(Model& target, const Request& request, const Variation& variation)
    : target_(target), request_(request), rejection_(!variation.promises_tokens()) {}

const CoverageCounter::Row& CoverageCounter::row_after(std::span<const Token> text, std::size_t drafted) {
  const auto [place, fresh] = rows_.try_emplace({drafted, std::vector(text.begin(), text.end())});
  Row& row = place->second;
  if (fresh) {
    const std::vector<float> logits = logits_after(target_, text, request_.context_shift);
    const std::optional<TokenSet> mask = allowed_after(request_, text);
    const TokenSet* const allowed = mask ? &*mask : nullptr;
    row.p = compute_distribution(logits, request_.sampling, {text, {}}, allowed);
    row.optional_end =
        mask && !mask->only() && std::ranges::any_of(request_.stops, [&](Token stop) { return mask->has(stop); });
    const std::span<const Token> committed = text.first(text.size() - drafted);
    row.penalized_by_draft =
        drafted > 0 && row.p != compute_distribution(logits, request_.sampling, {committed, {}}, allowed);
    if (request_.sampling.feeds_back())
      row.p = plain_rows(target_, request_, text, text.size(), every_row)[0].distribution;
  }
  return row;
}

void CoverageCounter::add_draft_token(const Round& round, std::span<const Token> text, int node, bool accepted) {
  const auto index = static_cast<std::size_t>(node);
  const int depth = round.proposal.depth(node);
  const Token draft_token = round.proposal.tokens[index];
  const Row& row = row_after(text, static_cast<std::size_t>(depth));
  const Distribution& p = row.p;
  const Distribution& q = round.proposal.drawn_from[index];
  const std::uint64_t wanted = p.weight(draft_token);
  if (depth < depths)
    met_.add(at_depth(accepted ? CoverageEvent::first_accepted : CoverageEvent::first_rejected, depth));
  if (wanted == 0) met_.add(CoverageEvent::p_is_zero);
  met_.add(q.is_point() ? CoverageEvent::q_is_point : q == p ? CoverageEvent::q_is_p : CoverageEvent::q_is_other);
  if (!accepted && request_.stops_at(draft_token)) met_.add(CoverageEvent::stop_rejected);
  if (row.optional_end && request_.stops_at(draft_token) && wanted > 0) {
    met_.add(accepted ? CoverageEvent::optional_end_accepted : CoverageEvent::optional_end_rejected);
  }
  if (!rejection_) return;
  if (wanted > 0 && wanted < q.weight(draft_token)) {
    met_.add(accepted ? CoverageEvent::accepted_by_coin : CoverageEvent::rejected_by_coin);
  }
  if (!accepted) {
    met_.add(Residual(p, q).tokens().size() > 1 ? CoverageEvent::several_residual_tokens
                                                : CoverageEvent::one_residual_token);
  }
}

bool CoverageCounter::is_consistent(const Round& round, std::span<const Token> text) const {
  const auto known = [&](Token token) { return token >= 0 && token < target_.vocabulary(); };
  const std::vector<Token>& draft_tokens = round.proposal.tokens;
  const int last = round.verdict.last;
  const std::size_t end = request_.prompt.size() + static_cast<std::size_t>(request_.max_new_tokens);
  return text.size() < end && round.verdict.accepted >= 0 && last < round.proposal.size() &&
         round.proposal.depth(last) + 1 == round.verdict.accepted &&
         round.proposal.drawn_from.size() == draft_tokens.size() && !round.emitted.empty() &&
         std::all_of(draft_tokens.begin(), draft_tokens.end(), known) &&
         std::all_of(round.emitted.begin(), round.emitted.end(), known);
}

void CoverageCounter::add_path(const Round& round, std::span<const Token> text) {
  const Proposal& proposal = round.proposal;
  const std::vector<int> path = proposal.path_to(round.verdict.last);
  std::vector<Token> prefix(text.begin(), text.end());
  int above = -1;
  bool above_is_sibling = false;  // not the first draft token at its position
  for (std::size_t depth = 0; depth <= path.size(); ++depth) {
    if (depth > 0 && row_after(prefix, depth).penalized_by_draft) met_.add(CoverageEvent::penalized_by_draft);
    const int first = proposal.first_child(above);
    if (first == Proposal::no_node) break;
    const bool several = proposal.next_sibling(first) != Proposal::no_node;
    const bool first_accepted = depth < path.size() && path[depth] == first;
    add_draft_token(round, prefix, first, first_accepted);
    if (first_accepted && above_is_sibling) met_.add(CoverageEvent::accepted_below_sibling);
    if (depth == path.size()) {
      if (several) met_.add(CoverageEvent::no_sibling_accepted);
      break;
    }
    if (!first_accepted) met_.add(CoverageEvent::sibling_accepted);
    if (!first_accepted && above_is_sibling) met_.add(CoverageEvent::sibling_accepted_below);
    above_is_sibling = !first_accepted;
    above = path[depth];
    prefix.push_back(proposal.tokens[above]);
  }
}

void CoverageCounter::add_round(const Round& round, int room, Before& before) {
  const int length = round.proposal.size();
  const int accepted = round.verdict.accepted;
  const bool rejected = !round.all_accepted();
  const bool all = length > 0 && !rejected && static_cast<int>(round.emitted.size()) == accepted + 1;
  if (rejected && before.rejected) met_.add(CoverageEvent::rejected_twice);
  if (all) met_.add(CoverageEvent::all_accepted);
  if (length == 0 && room > 0) met_.add(CoverageEvent::nothing_drafted);
  if (length == 0 && room > 0 && before.all_accepted) met_.add(CoverageEvent::nothing_drafted_after_all);
  if (length > 0 && before.length > 0 && length != before.length && length < room)
    met_.add(CoverageEvent::other_length);
  if (length > 0 && length == room && length < before.longest) met_.add(CoverageEvent::cut_by_budget);
  if (all && length == room) met_.add(CoverageEvent::budget_filled);
  if (request_.stops_at(round.emitted.back())) {
    const bool drafted = round.emitted.size() <= static_cast<std::size_t>(accepted);
    if (drafted) met_.add(CoverageEvent::stop_accepted);
    if (!drafted && rejected) met_.add(CoverageEvent::stop_after_rejection);
    if (!drafted && all) met_.add(CoverageEvent::stop_after_all);
  }
  before = {length, std::max(before.longest, length), rejected, all};
}

void CoverageCounter::add(const Trace& trace) {
  std::vector<Token> text = request_.prompt;
  const std::size_t end = text.size() + static_cast<std::size_t>(request_.max_new_tokens);
  Before before;
  for (const Round& round : trace.rounds) {
    if (!is_consistent(round, text)) return;
    add_path(round, text);
    add_round(round, static_cast<int>(end - text.size()) - 1, before);
    text.insert(text.end(), round.emitted.begin(), round.emitted.end());
  }
  met_.add(trace.finish == Finish::stop ? CoverageEvent::stopped : CoverageEvent::cut);
}

}  // namespace draftproof
