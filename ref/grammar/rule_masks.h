// SPDX-License-Identifier: MIT
// Where many tokens may follow, most of them end within what is being read: inside of a string of JSON a token is a
// part of it, whatever comes behind the string. What such a part of a state allows is found once, by reading every
// token from there. Equal parts of all grammars over one vocabulary share it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ref/acceptance/token_set.h"
#include "ref/grammar/grammar_states.h"
#include "ref/grammar/token_trie.h"

namespace draftproof {

struct RuleMask {
  TokenSet inside;   // tokens that end within the part, or with it
  TextTree outside;  // of tokens that go on behind the part, what is behind it
};

class RuleMasks {
 public:
  /// What may follow in a state, whatever comes where it accepts. nullptr: too many tokens go on there.
  std::shared_ptr<const RuleMask> find(GrammarStates& states, int state, const TokenTrie& tokens);

 private:
  static constexpr std::size_t masks_max = 256;

  std::mutex lock_;
  std::map<std::string, std::shared_ptr<const RuleMask>> masks_;  // by the description of the state
};

/// Adds the tokens of a tree that may follow in a state.
void add_tokens(const TextTree& tree, GrammarStates& states, int state, TokenSet& set);

}  // namespace draftproof
