// SPDX-License-Identifier: MIT
#include "ref/grammar/regular_language.h"

#include <algorithm>
#include <map>
#include <string>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/grammar/character_ranges.h"

namespace draftproof {
namespace {

constexpr int nowhere = -1;

/// Where a character leads.
int after(const RegularLanguage::State& state, char32_t character) {
  const auto edge = std::ranges::lower_bound(state.edges, character, {}, &RegularLanguage::Edge::last);
  return edge == state.edges.end() || edge->first > character ? nowhere : edge->to;
}

void add_edge(std::vector<RegularLanguage::Edge>& edges, RegularLanguage::Edge edge) {
  const bool goes_on = !edges.empty() && edges.back().to == edge.to && edges.back().last + 1 == edge.first;
  if (goes_on) edges.back().last = edge.last;
  else edges.push_back(edge);
}

}  // namespace

void refuse_large_language() {
  throw Error("is too complex: its automaton would have more than " + std::to_string(RegularLanguage::states_max) +
              " states; simplify it or lower its counts");
}

RegularLanguage::RegularLanguage(std::vector<State> states) {
  // Backwards from the states that accept.
  std::vector<std::vector<int>> before(states.size());
  std::vector<int> open;
  std::vector<bool> ends(states.size());
  for (std::size_t from = 0; from < states.size(); ++from) {
    for (const Edge& edge : states[from].edges)
      before[static_cast<std::size_t>(edge.to)].push_back(static_cast<int>(from));
    if (!states[from].accepts) continue;
    ends[from] = true;
    open.push_back(static_cast<int>(from));
  }
  while (!open.empty()) {
    const auto state = static_cast<std::size_t>(open.back());
    open.pop_back();
    for (const int from : before[state]) {
      if (ends[static_cast<std::size_t>(from)]) continue;
      ends[static_cast<std::size_t>(from)] = true;
      open.push_back(from);
    }
  }
  // The others that a text reaches keep their order.
  std::vector<int> place(states.size(), nowhere);
  int count = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (i == 0 || ends[i]) place[i] = count++;
  }
  states_.resize(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (place[i] == nowhere) continue;
    State& kept = states_[static_cast<std::size_t>(place[i])];
    kept.accepts = states[i].accepts;
    for (const Edge& edge : states[i].edges) {
      const auto to = static_cast<std::size_t>(edge.to);
      if (ends[to]) add_edge(kept.edges, {edge.first, edge.last, place[to]});
    }
  }
}

RegularLanguage RegularLanguage::of_everything() {
  State any{.accepts = true};
  for (const auto& [first, last] : complement({})) any.edges.push_back({first, last, 0});
  return RegularLanguage({any});
}

RegularLanguage RegularLanguage::of_words(const std::vector<std::string_view>& words) {
  std::vector<State> states(1);
  for (const std::string_view word : words) {
    std::size_t state = 0;
    for (std::size_t at = 0; at < word.size();) {
      const utf8::Character step = utf8::step(word, at);
      at += step.length;
      int next = after(states[state], step.code_point);
      if (next == nowhere) {
        next = static_cast<int>(states.size());
        if (states.size() >= states_max) refuse_large_language();
        std::vector<Edge>& edges = states[state].edges;
        edges.insert(std::ranges::lower_bound(edges, step.code_point, {}, &Edge::first),
                     {step.code_point, step.code_point, next});
        states.emplace_back();
      }
      state = static_cast<std::size_t>(next);
    }
    states[state].accepts = true;
  }
  return RegularLanguage(std::move(states));
}

RegularLanguage RegularLanguage::of_lengths(int min, int max) {
  const int last = max < 0 ? min : max;
  if (last >= static_cast<int>(states_max)) refuse_large_language();
  std::vector<State> states(static_cast<std::size_t>(last) + 1);
  for (int i = 0; i <= last; ++i) {
    State& state = states[static_cast<std::size_t>(i)];
    state.accepts = i >= min;
    if (i == last && max >= 0) continue;
    const int to = std::min(i + 1, last);
    for (const auto& [first, end] : complement({})) state.edges.push_back({first, end, to});
  }
  return RegularLanguage(std::move(states));
}

RegularLanguage RegularLanguage::product(const RegularLanguage& other, Keep keep) const {
  const State dead;
  const auto state_in = [&](const RegularLanguage& language, int state) -> const State& {
    return state == nowhere ? dead : language.states_[static_cast<std::size_t>(state)];
  };
  std::vector<std::pair<int, int>> pairs = {{0, 0}};
  std::map<std::pair<int, int>, int> places = {{{0, 0}, 0}};
  std::vector<State> states;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const State& one = state_in(*this, pairs[i].first);
    const State& two = state_in(other, pairs[i].second);
    State state;
    state.accepts = keep == Keep::both     ? one.accepts && two.accepts
                    : keep == Keep::either ? one.accepts || two.accepts
                                           : one.accepts && !two.accepts;
    // Between two borders of either one, all characters lead to the same pair.
    std::vector<char32_t> borders;
    for (const State* const each : {&one, &two}) {
      for (const Edge& edge : each->edges) {
        borders.push_back(edge.first);
        borders.push_back(edge.last + 1);
      }
    }
    std::ranges::sort(borders);
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    for (std::size_t border = 0; border + 1 < borders.size(); ++border) {
      const std::pair<int, int> to = {after(one, borders[border]), after(two, borders[border])};
      const bool leads_on = keep == Keep::both     ? to.first != nowhere && to.second != nowhere
                            : keep == Keep::either ? to.first != nowhere || to.second != nowhere
                                                   : to.first != nowhere;
      if (!leads_on) continue;
      const auto [known, fresh] = places.try_emplace(to, static_cast<int>(pairs.size()));
      if (fresh) {
        if (pairs.size() >= states_max) refuse_large_language();
        pairs.push_back(to);
      }
      add_edge(state.edges, {borders[border], borders[border + 1] - 1, known->second});
    }
    states.push_back(std::move(state));
  }
  return RegularLanguage(std::move(states));
}

RegularLanguage RegularLanguage::both(const RegularLanguage& other) const { return product(other, Keep::both); }
RegularLanguage RegularLanguage::either(const RegularLanguage& other) const { return product(other, Keep::either); }
RegularLanguage RegularLanguage::without(const RegularLanguage& other) const {
  return product(other, Keep::first_only);
}

RegularLanguage RegularLanguage::behind(char32_t first) const {
  std::vector<State> states = {State{.edges = {{first, first, 1}}}};
  for (State state : states_) {
    for (Edge& edge : state.edges) ++edge.to;
    states.push_back(std::move(state));
  }
  return RegularLanguage(std::move(states));
}

bool RegularLanguage::has(std::string_view text) const {
  int state = 0;
  for (std::size_t at = 0; at < text.size() && state != nowhere;) {
    const utf8::Character step = utf8::step(text, at);
    at += step.length;
    state = after(states_[static_cast<std::size_t>(state)], step.code_point);
  }
  return state != nowhere && states_[static_cast<std::size_t>(state)].accepts;
}

bool RegularLanguage::is_free(int state) const {
  const State& at = states_[static_cast<std::size_t>(state)];
  CharacterRanges stays;
  for (const Edge& edge : at.edges) {
    if (edge.to == state) stays.emplace_back(edge.first, edge.last);
  }
  return at.accepts && complement(stays).empty();
}

}  // namespace draftproof
