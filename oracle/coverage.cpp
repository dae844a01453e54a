// SPDX-License-Identifier: MIT
#include "oracle/coverage.h"

#include <algorithm>

#include "oracle/plain.h"

namespace draftproof {
namespace {

constexpr int depths = 4;

Event at_depth(Event first, int place) { return static_cast<Event>(static_cast<int>(first) + place); }

std::vector<Event> all_of(Possible possible) {
  std::vector<Event> list;
  for (Event event{}; event != Event::count; event = at_depth(event, 1)) {
    const bool of_trees = event >= Event::another_stood;
    const bool of_rejection = event >= Event::stood_by_chance && !of_trees;
    if ((possible.trees || !of_trees) && (possible.rejection || !of_rejection)) list.push_back(event);
  }
  return list;
}

}  // namespace

const char* name_of(Event event) noexcept {
  switch (event) {
    case Event::first_stood: return "a first guess stands";
    case Event::second_stood: return "a second guess stands";
    case Event::third_stood: return "a third guess stands";
    case Event::fourth_stood: return "a fourth guess stands";
    case Event::first_fell: return "a first guess falls";
    case Event::second_fell: return "a second guess falls";
    case Event::third_fell: return "a third guess falls";
    case Event::fourth_fell: return "a fourth guess falls";
    case Event::fell_twice: return "two refusals in a row";
    case Event::all_stood: return "a block stands whole";
    case Event::no_guess: return "a round without guesses";
    case Event::no_guess_after_all: return "no guesses after a block that stood whole";
    case Event::other_length: return "a block of another length";
    case Event::cut_by_budget: return "a block cut by the budget";
    case Event::filled_by_block: return "a block that fills the budget";
    case Event::cannot_be_said: return "a guess that the target cannot say";
    case Event::named: return "a guess from a point";
    case Event::drawn_from_p: return "a guess from the target's own distribution";
    case Event::drawn_from_other: return "a guess from another distribution";
    case Event::stop_stood: return "a stop token among the guesses that stand";
    case Event::stop_fell: return "a stop token that is guessed and falls";
    case Event::stop_after_refusal: return "a stop token in place of a guess";
    case Event::stop_after_all: return "a stop token after a block";
    case Event::penalised_by_guess: return "a row penalised for a guess before it";
    case Event::stopped: return "a text that ends in a stop token";
    case Event::cut: return "a text that is cut";
    case Event::stood_by_chance: return "a coin that lets a guess stand";
    case Event::fell_by_chance: return "a coin that lets a guess fall";
    case Event::one_left: return "one token left after a refusal";
    case Event::several_left: return "several tokens left after a refusal";
    case Event::another_stood: return "a guess that stands in the place of the first there";
    case Event::another_stood_below: return "two such guesses, one below the other";
    case Event::stood_below_another: return "a first guess that stands below such a guess";
    case Event::none_of_several_stood: return "several guesses in one place of which none stands";
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

Watch::Watch(Model& target, const Request& request, const Variation& variation)
    : target_(target), request_(request), rejection_(!variation.promises_tokens()) {}

const Watch::Row& Watch::row_after(std::span<const Token> text, std::size_t guessed) {
  const auto [place, fresh] = rows_.try_emplace({guessed, std::vector(text.begin(), text.end())});
  Row& row = place->second;
  if (fresh) {
    const std::vector<float> logits = logits_after(target_, text);
    row.p = distribution_of(logits, request_.sampling, {text, {}});
    const std::span<const Token> committed = text.first(text.size() - guessed);
    row.penalised_by_guess = guessed > 0 && row.p != distribution_of(logits, request_.sampling, {committed, {}});
  }
  return row;
}

void Watch::add_guess(const Round& round, std::span<const Token> text, int place, bool stands) {
  const auto index = static_cast<std::size_t>(place);
  const int depth = round.proposal.depth(place);
  const Token guess = round.proposal.tokens[index];
  const Distribution& p = row_after(text, static_cast<std::size_t>(depth)).p;
  const Distribution& q = round.proposal.drawn_from[index];
  const std::uint64_t wanted = p.weight(guess);
  if (depth < depths) met_.add(at_depth(stands ? Event::first_stood : Event::first_fell, depth));
  if (wanted == 0) met_.add(Event::cannot_be_said);
  met_.add(q.is_point() ? Event::named : q == p ? Event::drawn_from_p : Event::drawn_from_other);
  if (!stands && request_.stops_at(guess)) met_.add(Event::stop_fell);
  if (!rejection_) return;
  if (wanted > 0 && wanted < q.weight(guess)) met_.add(stands ? Event::stood_by_chance : Event::fell_by_chance);
  if (!stands) met_.add(Residual(p, q).tokens().size() > 1 ? Event::several_left : Event::one_left);
}

void Watch::add(const Trace& trace) {
  const auto known = [&](Token token) { return token >= 0 && token < target_.vocabulary(); };
  std::vector<Token> text = request_.prompt;
  const std::size_t end = text.size() + static_cast<std::size_t>(request_.max_new_tokens);
  int length_before = 0;
  int longest = 0;
  bool fell_before = false;
  bool all_before = false;
  for (const Round& round : trace.rounds) {
    const std::vector<Token>& guesses = round.proposal.tokens;
    const int length = round.proposal.size();
    const int accepted = round.verdict.accepted;
    const int last = round.verdict.last;
    // What a wrong decoder does is for the law to say; there is nothing to count in what is no round at all.
    if (text.size() >= end || accepted < 0 || last >= length || round.proposal.depth(last) + 1 != accepted ||
        round.proposal.drawn_from.size() != guesses.size() || round.emitted.empty() ||
        !std::all_of(guesses.begin(), guesses.end(), known) ||
        !std::all_of(round.emitted.begin(), round.emitted.end(), known)) {
      return;
    }
    const int room = static_cast<int>(end - text.size()) - 1;  // for guesses
    const bool fell = !round.nothing_fell();
    const bool all = length > 0 && !fell && static_cast<int>(round.emitted.size()) == accepted + 1;
    const std::vector<int> path = round.proposal.path_to(last);
    std::vector<Token> prefix = text;
    int above = -1;
    bool by_another = false;  // so `above` stood
    for (std::size_t depth = 0; depth <= path.size(); ++depth) {
      if (depth > 0 && row_after(prefix, depth).penalised_by_guess) met_.add(Event::penalised_by_guess);
      const int first = round.proposal.first_child(above);
      if (first == Proposal::no_guess) break;
      const bool several = round.proposal.next_sibling(first) != Proposal::no_guess;
      const bool first_stands = depth < path.size() && path[depth] == first;
      add_guess(round, prefix, first, first_stands);
      if (first_stands && by_another) met_.add(Event::stood_below_another);
      if (depth == path.size()) {
        if (several) met_.add(Event::none_of_several_stood);
        break;
      }
      if (!first_stands) met_.add(Event::another_stood);
      if (!first_stands && by_another) met_.add(Event::another_stood_below);
      by_another = !first_stands;
      above = path[depth];
      prefix.push_back(guesses[static_cast<std::size_t>(above)]);
    }
    if (fell && fell_before) met_.add(Event::fell_twice);
    if (all) met_.add(Event::all_stood);
    if (length == 0 && room > 0) met_.add(Event::no_guess);
    if (length == 0 && room > 0 && all_before) met_.add(Event::no_guess_after_all);
    if (length > 0 && length_before > 0 && length != length_before && length < room) met_.add(Event::other_length);
    if (length > 0 && length == room && length < longest) met_.add(Event::cut_by_budget);
    if (all && length == room) met_.add(Event::filled_by_block);
    if (request_.stops_at(round.emitted.back())) {
      const bool guessed = round.emitted.size() <= static_cast<std::size_t>(accepted);
      if (guessed) met_.add(Event::stop_stood);
      if (!guessed && fell) met_.add(Event::stop_after_refusal);
      if (!guessed && all) met_.add(Event::stop_after_all);
    }
    text.insert(text.end(), round.emitted.begin(), round.emitted.end());
    length_before = length;
    longest = std::max(longest, length);
    fell_before = fell;
    all_before = all;
  }
  met_.add(trace.finish == Finish::stop ? Event::stopped : Event::cut);
}

}  // namespace draftproof
