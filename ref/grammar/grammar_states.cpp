// SPDX-License-Identifier: MIT
#include "ref/grammar/grammar_states.h"

#include <algorithm>
#include <string>

#include "ref/base/error.h"

namespace draftproof {
namespace {

[[noreturn]] void refuse() {
  throw Error("the grammar is too ambiguous: there are too many ways to read the output; simplify it");
}

}  // namespace

GrammarStates::GrammarStates(const Grammar& grammar) : grammar_(grammar) {
  State first;
  std::vector<std::pair<int, int>> seen;
  for (const int place : grammar.alternatives(grammar.root())) expand(place, bottom, first, seen);
  start_ = state_of(std::move(first));
}

int GrammarStates::stack(int place, int below) {
  const auto [known, fresh] = stack_places_.try_emplace({place, below}, static_cast<int>(stacks_.size()));
  if (!fresh) return known->second;
  if (stacks_.size() >= stacks_max) refuse();
  stacks_.push_back({place, below});
  return known->second;
}

/// Adds to the state what may come at this place: goes into rules, and back out of those that end, until a set of bytes
/// is on top. `seen`: the rules that were gone into, each with the stack below it.
void GrammarStates::expand(int place, int below, State& state, std::vector<std::pair<int, int>>& seen) {
  std::vector<std::pair<int, int>> open = {{place, below}};
  while (!open.empty()) {
    const auto [at, under] = open.back();
    open.pop_back();
    const Grammar::Symbol& symbol = grammar_.at(at);
    if (symbol.kind != Grammar::Symbol::Kind::rule && symbol.kind != Grammar::Symbol::Kind::end) {
      state.stacks.push_back(stack(at, under));
      if (state.stacks.size() > stacks_of_state_max) refuse();
    } else if (symbol.kind == Grammar::Symbol::Kind::end) {
      if (under == bottom) {
        state.accepts = true;
      } else {
        const Stack& top = stacks_[static_cast<std::size_t>(under)];
        open.emplace_back(top.place, top.below);
      }
    } else {
      // Nothing is left to return to where the rule is the last of its alternative: repetitions keep the stack low.
      const bool last = grammar_.at(at + 1).kind == Grammar::Symbol::Kind::end;
      const int back = last ? under : stack(at + 1, under);
      const std::pair<int, int> call = {symbol.index, back};
      if (std::ranges::find(seen, call) != seen.end()) continue;
      seen.push_back(call);
      if (seen.size() > stacks_of_state_max) refuse();
      for (const int alternative : grammar_.alternatives(symbol.index)) open.emplace_back(alternative, back);
    }
  }
}

int GrammarStates::state_of(State state) {
  if (state.stacks.empty() && !state.accepts) return dead;
  std::ranges::sort(state.stacks);
  state.stacks.erase(std::unique(state.stacks.begin(), state.stacks.end()), state.stacks.end());
  const auto [known, fresh] =
      state_places_.try_emplace({state.stacks, state.accepts}, static_cast<int>(states_.size()));
  if (!fresh) return known->second;
  if (states_.size() >= states_max) refuse();
  states_.push_back(std::move(state));
  return known->second;
}

int GrammarStates::next(int state, unsigned char byte) {
  if (state == dead) return dead;
  State& from = states_[static_cast<std::size_t>(state)];
  if (!from.after) {
    from.after = std::make_unique<std::array<int, 256>>();
    from.after->fill(unknown);
  }
  std::array<int, 256>& after = *from.after;  // stays where it is when states_ grows
  if (after[byte] != unknown) return after[byte];
  State to;
  std::vector<std::pair<int, int>> seen;
  for (const int one : from.stacks) {
    const Stack top = stacks_[static_cast<std::size_t>(one)];
    const Grammar::Symbol& symbol = grammar_.at(top.place);
    if (symbol.kind != Grammar::Symbol::Kind::bytes || !grammar_.set(symbol.index).test(byte)) continue;
    expand(top.place + 1, top.below, to, seen);
  }
  return after[byte] = state_of(std::move(to));
}

int GrammarStates::next_token(int state, Token token) {
  if (state == dead || !grammar_.names_tokens()) return dead;
  State& from = states_[static_cast<std::size_t>(state)];
  if (const auto known = from.after_token.find(token); known != from.after_token.end()) return known->second;
  State to;
  std::vector<std::pair<int, int>> seen;
  for (const int one : from.stacks) {
    const Stack top = stacks_[static_cast<std::size_t>(one)];
    const Grammar::Symbol& symbol = grammar_.at(top.place);
    const bool same = symbol.index == token;
    if (symbol.kind != (same ? Grammar::Symbol::Kind::token : Grammar::Symbol::Kind::other_token)) continue;
    expand(top.place + 1, top.below, to, seen);
  }
  const int after = state_of(std::move(to));
  states_[static_cast<std::size_t>(state)].after_token.emplace(token, after);
  return after;
}

int GrammarStates::either(int one, int other) {
  if (one == dead || one == other) return other;
  if (other == dead) return one;
  const State& first = states_[static_cast<std::size_t>(one)];
  const State& second = states_[static_cast<std::size_t>(other)];
  State both;
  both.stacks = first.stacks;
  both.stacks.insert(both.stacks.end(), second.stacks.begin(), second.stacks.end());
  both.accepts = first.accepts || second.accepts;
  return state_of(std::move(both));
}

void GrammarStates::add_named_tokens(int state, int vocabulary, TokenSet& set) const {
  if (state == dead || !grammar_.names_tokens()) return;
  for (const int one : states_[static_cast<std::size_t>(state)].stacks) {
    const Grammar::Symbol& symbol = grammar_.at(stacks_[static_cast<std::size_t>(one)].place);
    if (symbol.kind == Grammar::Symbol::Kind::token && symbol.index < vocabulary) set.add(symbol.index);
    if (symbol.kind != Grammar::Symbol::Kind::other_token) continue;
    for (Token token = 0; token < vocabulary; ++token) {
      if (token != symbol.index) set.add(token);
    }
  }
}

}  // namespace draftproof
