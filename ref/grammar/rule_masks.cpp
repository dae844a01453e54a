// SPDX-License-Identifier: MIT
#include "ref/grammar/rule_masks.h"

#include <string_view>
#include <utility>
#include <vector>

namespace draftproof {
namespace {

constexpr std::size_t outside_max = std::size_t{1} << 13;  // texts

/// Reads a tree from a state on; calls `add` for ranges of tokens that may follow, and `ended` for nodes where the
/// state accepts. Stops when that returns false.
template <class Add, class Ended>
void read(const TextTree& tree, GrammarStates& states, int state, const Add& add, const Ended& ended) {
  std::vector<int> path = {state};  // [depth]
  const std::vector<TextTree::Node>& nodes = tree.nodes();
  for (std::size_t i = 0; i + 1 < nodes.size();) {
    const TextTree::Node& node = nodes[i];
    path.resize(node.depth);
    const auto end = static_cast<std::size_t>(node.end);
    const bool all_fit = node.characters != TextTree::not_plain && states.reads_any_plain(path.back(), node.characters);
    const int next = all_fit ? GrammarStates::dead : states.next(path.back(), node.byte);
    if (all_fit) add(node.tokens, nodes[end].tokens);
    if (next == GrammarStates::dead) {
      i = end;
      continue;
    }
    path.push_back(next);
    add(node.tokens, nodes[i + 1].tokens);
    if (states.accepts(next) && !ended(i)) return;
    ++i;
  }
}

std::shared_ptr<const RuleMask> made(GrammarStates& states, int state, const TokenTrie& tokens) {
  const TextTree& tree = tokens.tree();
  RuleMask mask = {TokenSet(tokens.vocabulary()), {}};
  std::vector<std::pair<std::string_view, Token>> outside;
  const auto add = [&](int first, int last) {
    for (int at = first; at < last; ++at) mask.inside.add(tree.tokens()[static_cast<std::size_t>(at)]);
  };
  const auto ended = [&](std::size_t i) {
    const TextTree::Node& node = tree.nodes()[i];
    for (int at = tree.nodes()[i + 1].tokens; at < tree.nodes()[static_cast<std::size_t>(node.end)].tokens; ++at) {
      const Token token = tree.tokens()[static_cast<std::size_t>(at)];
      outside.emplace_back(tokens.bytes(token).substr(node.depth), token);
    }
    return outside.size() <= outside_max;
  };
  read(tree, states, state, add, ended);
  if (outside.size() > outside_max) return nullptr;
  mask.outside = TextTree(std::move(outside));
  return std::make_shared<const RuleMask>(std::move(mask));
}

}  // namespace

std::shared_ptr<const RuleMask> RuleMasks::find(GrammarStates& states, int state, const TokenTrie& tokens) {
  const std::string what = states.description(state);
  if (what.empty()) return made(states, state, tokens);
  {
    const std::lock_guard hold(lock_);
    const auto known = masks_.find(what);
    if (known != masks_.end()) return known->second;
  }
  const std::shared_ptr<const RuleMask> mask = made(states, state, tokens);
  const std::lock_guard hold(lock_);
  if (masks_.size() >= masks_max) masks_.clear();
  return masks_[what] = mask;
}

void add_tokens(const TextTree& tree, GrammarStates& states, int state, TokenSet& set) {
  const auto add = [&](int first, int last) {
    for (int at = first; at < last; ++at) set.add(tree.tokens()[static_cast<std::size_t>(at)]);
  };
  read(tree, states, state, add, [](std::size_t) { return true; });
}

}  // namespace draftproof
