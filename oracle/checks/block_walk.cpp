// SPDX-License-Identifier: MIT
#include "oracle/checks/block_walk.h"

#include <array>

namespace draftproof {
namespace {

constexpr std::uint64_t whole = 2048;
using Wide = unsigned __int128;

class Walk {
 public:
  Walk(const BlockRound& round, RandomSource& random) : round_(round), random_(random) {}

  BlockWalk result() && {
    take_shares();
    return std::move(walk_);
  }

 private:
  int position(std::size_t depth) const { return static_cast<int>(round_.text.size() + depth); }

  std::vector<Token> text_after(const std::vector<int>& nodes) const {
    std::vector<Token> text = round_.text;
    for (const int node : nodes) text.push_back(round_.proposal.tokens[static_cast<std::size_t>(node)]);
    return text;
  }

  std::size_t sample(const Key& key, std::span<const std::uint64_t> weights) {
    walk_.draws.push_back(key);
    return random_.sample_index(key, weights);
  }
  /// Tosses a coin that succeeds with yes / (yes + no).
  bool succeeds(std::size_t depth, int which, std::uint64_t yes, std::uint64_t no) {
    if (no == 0) return true;
    if (yes == 0) return false;
    const Key key = {round_.sequence, position(depth), Purpose::accept, static_cast<int>(2 * depth) + which + 1};
    return sample(key, std::array{yes, no}) == 0;
  }
  void take_next(const std::vector<Token>& tokens, const std::vector<std::uint64_t>& weights, Purpose purpose) {
    const Key key = {round_.sequence, position(walk_.nodes.size()), purpose};
    const bool certain = purpose == Purpose::target && tokens.size() == 1;
    walk_.next = tokens[certain ? 0 : sample(key, weights)];
  }
  void take_from_target(const Distribution& p) { take_next(p.tokens(), p.weights(), Purpose::target); }

  void take_shares() {
    const Proposal& proposal = round_.proposal;
    std::vector<int> branch;  // draft tokens so far
    std::vector<int> accepted;
    Residual last;  // after the accepted
    std::uint64_t share = whole;
    for (int node = 0; node < proposal.size() && share > 0; ++node) {
      const auto place = static_cast<std::size_t>(node);
      walk_.shares.push_back(share);
      const Distribution& p = round_.row(rows_++, text_after(branch));
      const Distribution& q = proposal.drawn_from[place];
      Residual rest = residual(p, q, share);
      if (rest.sum > 0 && succeeds(place, 0, rest.sum, Distribution::total * (whole - share))) {
        accepted = branch;
        last = std::move(rest);
        walk_.rejected = node;
      }
      const std::uint64_t offered = q.weight(proposal.tokens[place]);
      if (offered == 0) return;
      const Wide wanted = Wide{share} * p.weight(proposal.tokens[place]);
      const Wide kept = wanted < Wide{whole} * offered ? wanted : Wide{whole} * offered;
      const auto left = static_cast<std::uint64_t>(kept % offered);
      share = static_cast<std::uint64_t>(kept / offered) + (succeeds(place, 1, offered - left, left) ? 0 : 1);
      branch.push_back(node);
    }
    if (share > 0) {
      walk_.shares.push_back(share);
      if (succeeds(branch.size(), 0, share, whole - share)) return accept_all(branch);
    }
    walk_.nodes = accepted;
    take_next(last.tokens, last.weights, Purpose::residual);
  }

  struct Residual {
    std::vector<Token> tokens;
    std::vector<std::uint64_t> weights;
    std::uint64_t sum = 0;
  };
  static Residual residual(const Distribution& p, const Distribution& q, std::uint64_t share) {
    Residual rest;
    for (const Token token : p.tokens()) {
      const Wide wanted = Wide{share} * p.weight(token);
      const Wide offered = Wide{whole} * q.weight(token);
      if (wanted <= offered) continue;
      rest.tokens.push_back(token);
      rest.weights.push_back(static_cast<std::uint64_t>(wanted - offered));
      rest.sum += rest.weights.back();
    }
    return rest;
  }

  void accept_all(const std::vector<int>& branch) {
    walk_.nodes = branch;
    walk_.rejected = Proposal::no_node;
    const std::vector<Token> text = text_after(branch);
    if (!branch.empty() && round_.is_free(text)) return;
    take_from_target(round_.row(rows_++, text));
  }

  const BlockRound& round_;
  RandomSource& random_;
  BlockWalk walk_;
  std::size_t rows_ = 0;
};

}  // namespace

const char* unknown_rule(const Variation& variation) noexcept {
  for (const Rule* const known : {&matching, &rejection, &block}) {
    if (variation.rule->judge == known->judge) return nullptr;
  }
  return variation.rule->name;
}

BlockWalk walk_block(const BlockRound& round, RandomSource& random) { return Walk(round, random).result(); }

}  // namespace draftproof
