// SPDX-License-Identifier: MIT
// A grammar as an automaton over bytes and tokens, built while it is used. A state is what may come next after some of
// them: a set of stacks of places in rules. Equal stacks and equal states exist once, and where a byte leads from a
// state is remembered, so a byte that was read before costs a look-up.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ref/acceptance/token_set.h"
#include "ref/grammar/grammar.h"

namespace draftproof {

class GrammarStates {
 public:
  static constexpr int dead = -1;  // the state after bytes that no sentence begins with
  static constexpr std::size_t states_max = std::size_t{1} << 16;
  static constexpr std::size_t stacks_max = std::size_t{1} << 20;
  static constexpr std::size_t stacks_of_state_max = 2048;

  /// `grammar` outlives it.
  explicit GrammarStates(const Grammar& grammar);

  int start() const noexcept { return start_; }
  /// Throws Error when the grammar is so ambiguous that a state or the automaton becomes too large.
  int next(int state, unsigned char byte);
  /// The state after a token that the grammar names, if it may come; what its bytes lead to is `next`'s.
  int next_token(int state, Token token);
  /// The state after either of two.
  int either(int one, int other);

  /// Whether it is known that so many plain characters may follow in a state, whichever they are (is_plain_character).
  bool reads_any_plain(int state, int count);

  /// A part of a state: the stacks that have one below them in common, and what comes when they have ended.
  struct Part {
    int within;               // the state of these stacks as if nothing were below: it accepts where they end
    int behind;               // the state of the one below; dead where there is none
    std::vector<int> others;  // the stacks of the state that are no part
  };
  /// Empty for the dead state.
  std::vector<int> stacks(int state) const;
  /// How many bytes may come at the top of a stack.
  std::size_t breadth(int stack) const;
  /// The part of these stacks that have in common what is `depth` places below the first of them.
  Part part(const std::vector<int>& stacks, int depth);
  static constexpr int part_depth_max = 4;
  int state_of(std::vector<int> stacks);
  /// What can still come in a state, the same for equal rules of other grammars; empty when it is long.
  std::string description(int state) const;

  /// Adds the tokens of a vocabulary that may come because the grammar names them, or any but them.
  void add_named_tokens(int state, int vocabulary, TokenSet& set) const;
  /// Whether the bytes so far are a sentence; whether they are one and nothing may follow.
  bool accepts(int state) const { return state != dead && states_[static_cast<std::size_t>(state)].accepts; }
  bool complete(int state) const { return accepts(state) && states_[static_cast<std::size_t>(state)].stacks.empty(); }

  std::size_t size() const noexcept { return states_.size(); }

 private:
  static constexpr int bottom = -1;   // the empty stack
  static constexpr int unknown = -2;  // not computed yet
  struct Stack {
    int place;  // in front of a set of bytes or a token, or a place to return to
    int below;
  };
  struct State {
    std::vector<int> stacks;  // ascending; each with a set of bytes or a token on top
    bool accepts = false;
    std::unique_ptr<std::array<int, 256>> after = {};  // where each byte leads; made when one is asked for
    std::map<Token, int> after_token = {};
    int after_plain = unknown;  // where every plain character leads; dead when they lead to several states
  };
  int stack(int place, int below);
  int after_any_plain(int state);
  std::optional<int> without(int stack, int base, int depth);
  void expand(int place, int below, State& state, std::vector<std::pair<int, int>>& seen);
  int state_of(State state);

  const Grammar& grammar_;
  std::vector<Stack> stacks_;
  std::map<std::pair<int, int>, int> stack_places_;
  std::vector<State> states_;
  std::map<std::pair<std::vector<int>, bool>, int> state_places_;
  int start_;
};

}  // namespace draftproof
