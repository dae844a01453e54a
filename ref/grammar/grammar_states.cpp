// SPDX-License-Identifier: MIT
#include "ref/grammar/grammar_states.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <set>

#include "ref/base/error.h"
#include "ref/grammar/token_trie.h"

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
  ByteSet same;  // bytes that lead where this one does: they are in the same sets
  same.set();
  for (const int one : from.stacks) {
    const Stack top = stacks_[static_cast<std::size_t>(one)];
    const Grammar::Symbol& symbol = grammar_.at(top.place);
    if (symbol.kind != Grammar::Symbol::Kind::bytes) continue;
    const ByteSet& set = grammar_.set(symbol.index);
    same &= set.test(byte) ? set : ~set;
    if (set.test(byte)) expand(top.place + 1, top.below, to, seen);
  }
  const int next = state_of(std::move(to));
  for (std::size_t other = 0; other < after.size(); ++other) {
    if (same.test(other)) after[other] = next;
  }
  return next;
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

bool GrammarStates::reads_any_plain(int state, int count) {
  for (; count > 0 && state != dead; --count) {
    const int next = after_any_plain(state);
    if (next == state) return true;
    state = next;
  }
  return state != dead;
}

/// The state after a plain character, if it is the same for all of them; else dead.
int GrammarStates::after_any_plain(int state) {
  if (const int known = states_[static_cast<std::size_t>(state)].after_plain; known != unknown) return known;
  int common = unknown;
  const auto arrive = [&](int to) {
    if (common == unknown) common = to;
    return to != dead && to == common;
  };
  std::set<std::array<int, 4>> seen;  // state, range of the next byte, bytes of the character that are left
  const std::function<bool(int, int, int, int)> lead_to_one = [&](int from, int first, int last, int left) {
    if (from == dead) return false;
    if (!seen.insert({from, first, last, left}).second) return true;
    for (int byte = first; byte <= last; ++byte) {
      const int to = next(from, static_cast<unsigned char>(byte));
      if (left == 1 ? !arrive(to) : !lead_to_one(to, 0x80, 0xBF, left - 1)) return false;
    }
    return true;
  };
  const auto all_lead_to_one = [&] {
    for (char32_t c = 0; c < 0x80; ++c) {
      if (is_plain_character(c) && !arrive(next(state, static_cast<unsigned char>(c)))) return false;
    }
    for (int lead = 0xC2; lead <= 0xF4; ++lead) {
      const int after = next(state, static_cast<unsigned char>(lead));
      const int first = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
      const int last = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
      const int left = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
      if (lead != 0xE2) {
        if (!lead_to_one(after, first, last, left)) return false;
        continue;
      }
      // Two characters behind E2 80 are not plain.
      const int general = after == dead ? dead : next(after, 0x80);
      if (!lead_to_one(general, 0x80, 0xA7, 1) || !lead_to_one(general, 0xAA, 0xBF, 1)) return false;
      if (!lead_to_one(after, 0x81, 0xBF, 2)) return false;
    }
    return true;
  };
  const int after = all_lead_to_one() ? common : dead;
  states_[static_cast<std::size_t>(state)].after_plain = after;
  return after;
}

std::vector<int> GrammarStates::stacks(int state) const {
  return state == dead ? std::vector<int>() : states_[static_cast<std::size_t>(state)].stacks;
}

std::size_t GrammarStates::breadth(int stack) const {
  const Grammar::Symbol& symbol = grammar_.at(stacks_[static_cast<std::size_t>(stack)].place);
  return symbol.kind == Grammar::Symbol::Kind::bytes ? grammar_.set(symbol.index).count() : 0;
}

/// The stack without `base` and what is below it; nothing where that is not among the next `depth` ones.
std::optional<int> GrammarStates::without(int stack, int base, int depth) {
  const Stack top = stacks_[static_cast<std::size_t>(stack)];
  if (top.below == base) return this->stack(top.place, bottom);
  if (depth == 1 || top.below == bottom) return std::nullopt;
  const std::optional<int> below = without(top.below, base, depth - 1);
  return below ? std::optional(this->stack(top.place, *below)) : std::nullopt;
}

GrammarStates::Part GrammarStates::part(const std::vector<int>& stacks, int depth) {
  int base = stacks.front();
  for (int i = 0; i < depth && base != bottom; ++i) base = stacks_[static_cast<std::size_t>(base)].below;
  Part part;
  State within;
  for (const int one : stacks) {
    if (const auto cut = without(one, base, part_depth_max)) within.stacks.push_back(*cut);
    else part.others.push_back(one);
  }
  part.within = state_of(std::move(within));
  State behind;
  if (base != bottom) {
    const Stack top = stacks_[static_cast<std::size_t>(base)];
    std::vector<std::pair<int, int>> seen;
    expand(top.place, top.below, behind, seen);
  }
  part.behind = state_of(std::move(behind));
  return part;
}

int GrammarStates::state_of(std::vector<int> stacks) {
  State state;
  state.stacks = std::move(stacks);
  return state_of(std::move(state));
}

std::string GrammarStates::description(int state) const {
  constexpr std::size_t text_max = std::size_t{1} << 16;
  std::string text;
  std::map<int, std::size_t> numbers;  // of rules, as they come
  std::vector<int> rules;
  const auto describe = [&](int place) {
    for (; grammar_.at(place).kind != Grammar::Symbol::Kind::end; ++place) {
      const auto [kind, index] = grammar_.at(place);
      text += static_cast<char>('a' + static_cast<int>(kind));
      if (kind == Grammar::Symbol::Kind::bytes) {
        const auto bytes = std::bit_cast<std::array<char, sizeof(ByteSet)>>(grammar_.set(index));
        text.append(bytes.begin(), bytes.end());
      } else if (kind == Grammar::Symbol::Kind::rule) {
        const auto [number, fresh] = numbers.try_emplace(index, rules.size());
        if (fresh) rules.push_back(index);
        text += std::to_string(number->second);
      } else {
        text += std::to_string(index);
      }
    }
    text += '|';
  };
  for (int stack : states_[static_cast<std::size_t>(state)].stacks) {
    for (; stack != bottom; stack = stacks_[static_cast<std::size_t>(stack)].below) {
      describe(stacks_[static_cast<std::size_t>(stack)].place);
    }
    text += '/';
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    text += ';';
    for (const int alternative : grammar_.alternatives(rules[i])) describe(alternative);
    if (text.size() > text_max) return "";
  }
  return text;
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
