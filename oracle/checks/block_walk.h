// SPDX-License-Identifier: MIT
// What a round by the rule `block` decides about a chain, from its definition: which coins it tosses and which draft
// tokens it accepts. Shares no code with ref/acceptance/block.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oracle/plain/subject.h"
#include "ref/acceptance/proposal.h"
#include "ref/acceptance/random_source.h"

namespace draftproof {

struct BlockWalk {
  std::vector<int> nodes;             // the accepted draft tokens
  std::vector<Key> draws;             // in order
  std::vector<std::uint64_t> shares;  // w of rule.h, of 2048: with which so many draft tokens are to be accepted
  std::optional<Token> next;          // none where the row that it is drawn from is free, or where a q has no weight
  int rejected = Proposal::no_node;   // the draft token whose q is taken away, where `next` replaces it
};

struct BlockRound {
  const Proposal& proposal;  // a chain
  std::vector<Token> text;   // before the round
  int sequence = 0;
  /// Returns row number `row` of those that the rule reads, the one after this text.
  std::function<const Distribution&(std::size_t row, const std::vector<Token>& text)> row;
  /// Whether the row after this text, and what is drawn from it, may be anything.
  std::function<bool(const std::vector<Token>& text)> is_free;
};

/// Returns the name of a rule that no check can replay; nullptr for `matching`, `rejection` and `block`.
const char* unknown_rule(const Variation& variation) noexcept;

BlockWalk walk_block(const BlockRound& round, RandomSource& random);

}  // namespace draftproof
