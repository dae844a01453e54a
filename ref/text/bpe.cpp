// SPDX-License-Identifier: MIT
#include "ref/text/bpe.h"

#include <queue>
#include <tuple>

#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr std::int32_t none = -1;

struct Symbol {
  Token token;  // none: merged into a symbol further left
  std::int32_t previous;
  std::int32_t next;
};

struct Candidate {
  std::uint32_t rank;
  std::int32_t left;  // index of the left symbol
  Token result;
};

struct Later {
  bool operator()(const Candidate& one, const Candidate& other) const {
    return std::tie(one.rank, one.left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

Bpe::Bpe() { of_byte_.fill(none); }

std::size_t Bpe::PairHash::operator()(std::uint64_t pair) const {  // the finalizer of SplitMix64
  pair = (pair ^ (pair >> 30)) * 0xBF58476D1CE4E5B9u;
  pair = (pair ^ (pair >> 27)) * 0x94D049BB133111EBu;
  return pair ^ (pair >> 31);
}

std::uint64_t Bpe::pair_of(Token left, Token right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}

bool Bpe::add_merge(Token left, Token right, Token result) {
  const Merge merge{static_cast<std::uint32_t>(merges_.size()), result};
  return merges_.emplace(pair_of(left, right), merge).second;
}

void Bpe::encode(std::string_view piece, std::vector<Token>& tokens) const {
  const auto count = static_cast<std::int32_t>(piece.size());
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (std::int32_t index = 0; index < count; ++index) {
    const Token token = of_byte(static_cast<unsigned char>(piece[index]));
    REQUIRE(token != none, "a piece contains only bytes that have tokens");
    symbols.push_back({token, index - 1, index + 1 < count ? index + 1 : none});
  }
  const auto at = [&](std::int32_t index) -> Symbol& { return symbols[index]; };
  const auto merge_at = [&](std::int32_t left) {
    return merges_.find(pair_of(at(left).token, at(at(left).next).token));
  };

  std::priority_queue<Candidate, std::vector<Candidate>, Later> candidates;
  const auto propose = [&](std::int32_t left) {
    if (left == none || at(left).next == none) return;
    const auto merge = merge_at(left);
    if (merge != merges_.end()) candidates.push({merge->second.rank, left, merge->second.result});
  };
  for (std::int32_t left = 0; left + 1 < count; ++left) propose(left);

  while (!candidates.empty()) {
    const Candidate candidate = candidates.top();
    candidates.pop();
    Symbol& left = at(candidate.left);
    if (left.token == none || left.next == none) continue;
    // The pair may have changed since it was pushed. If it still gives the same token it is merged, as in the
    // reference.
    const auto merge = merge_at(candidate.left);
    if (merge == merges_.end() || merge->second.result != candidate.result) continue;
    Symbol& right = at(left.next);
    left.token = candidate.result;
    left.next = right.next;
    right.token = none;
    if (left.next != none) at(left.next).previous = candidate.left;
    propose(left.previous);
    propose(candidate.left);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.token != none) tokens.push_back(symbol.token);
  }
}

}  // namespace draftproof
