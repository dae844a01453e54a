// SPDX-License-Identifier: MIT
#include "oracle/checks/block_walk.h"

#include <array>
#include <numeric>

namespace draftproof {
namespace {

constexpr std::uint64_t whole = 2048;
using Wide = unsigned __int128;

class Walk {
 public:
  Walk(const BlockRound& round, RandomSource& random) : round_(round), random_(random), text_(round.text) {}

  BlockWalk result() && {
    take_shares();
    return std::move(walk_);
  }

 private:
  int position(std::size_t depth) const { return static_cast<int>(round_.text.size() + depth); }

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

  void take_shares() {
    const Proposal& proposal = round_.proposal;
    std::size_t accepted = 0;
    Residual last;  // after the accepted
    std::uint64_t share = whole;
    std::size_t i = 0;
    for (; i < proposal.tokens.size() && share > 0; ++i) {
      walk_.shares.push_back(share);
      const Distribution& p = round_.row(i, text_);
      const Distribution& q = proposal.drawn_from[i];
      Residual rest = residual(p, q, share);
      if (rest.sum > 0 && succeeds(i, 0, rest.sum, Distribution::total * (whole - share))) {
        accepted = i;
        last = std::move(rest);
      }
      const std::uint64_t offered = q.weight(proposal.tokens[i]);
      if (offered == 0) return;
      const Wide wanted = Wide{share} * p.weight(proposal.tokens[i]);
      const Wide kept = wanted < Wide{whole} * offered ? wanted : Wide{whole} * offered;
      const auto left = static_cast<std::uint64_t>(kept % offered);
      share = static_cast<std::uint64_t>(kept / offered) + (succeeds(i, 1, offered - left, left) ? 0 : 1);
      text_.push_back(proposal.tokens[i]);
    }
    if (share > 0) {
      walk_.shares.push_back(share);
      if (succeeds(i, 0, share, whole - share)) return accept_all();
    }
    accept(accepted);
    walk_.rejected = static_cast<int>(accepted);
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

  void accept(std::size_t count) {
    walk_.nodes.resize(count);
    std::iota(walk_.nodes.begin(), walk_.nodes.end(), 0);
  }
  void accept_all() {
    accept(round_.proposal.tokens.size());
    if (!walk_.nodes.empty() && round_.is_free(text_)) return;
    const Distribution& p = round_.row(walk_.nodes.size(), text_);
    take_next(p.tokens(), p.weights(), Purpose::target);
  }

  const BlockRound& round_;
  RandomSource& random_;
  std::vector<Token> text_;  // and the draft tokens so far
  BlockWalk walk_;
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
