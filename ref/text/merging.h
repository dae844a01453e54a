// SPDX-License-Identifier: MIT
// Byte-pair encoding: neighboring symbols of a piece are joined, the smallest rank first and the leftmost of equal
// ranks, until no two can be, in O(n log n) for n symbols. Candidates are in a heap and are checked when they are
// popped, as in `Word::merge_all` of Hugging Face's `tokenizers`. What can be joined, and its rank, is for the
// vocabulary to say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "ref/base/token.h"
#include "ref/text/key_table.h"

namespace draftproof {

struct Symbol {
  Token token;         // -1: unknown text
  std::int32_t begin;  // its bytes in the piece
  std::int32_t size;   // 0: joined to the symbol on its left
};

/// What two neighbors become.
struct Joined {
  std::uint32_t rank;
  Token token;  // -1: they are not joined
};

/// Joined pairs of tokens, in order of rank.
class MergeTable {
 public:
  /// Adds the merge of the next rank. Returns false, and adds nothing, when the pair has a rank already.
  bool add(Token left, Token right, Token result) {
    const bool added = add_with_rank(left, right, result, next_rank_);
    next_rank_ += added ? 1 : 0;
    return added;
  }
  /// The same with a rank that other pairs may have, too. A table has merges of one kind only.
  bool add_with_rank(Token left, Token right, Token result, std::uint32_t rank) {
    return merges_.insert(pair_of(left, right), {rank, result});
  }
  Joined find(Token left, Token right) const {
    const Joined* joined = left < 0 || right < 0 ? nullptr : merges_.find(pair_of(left, right));
    return joined != nullptr ? *joined : Joined{0, -1};
  }

 private:
  static std::uint64_t pair_of(Token left, Token right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }

  KeyTable<Joined> merges_;
  std::uint32_t next_rank_ = 0;
};

/// Joins the symbols of one piece after the other; keeps its memory between them.
class Merger {
 public:
  std::vector<Symbol>& symbols() { return symbols_; }  // of the piece; fill it, merge, read what is left

  /// `join(left, right)` returns Joined; equal tokens for equal tokens and texts.
  template <typename Join>
  void merge(const Join& join) {
    if (symbols_.size() < 2) return;
    const auto count = static_cast<std::int32_t>(symbols_.size());
    links_.resize(symbols_.size());
    candidates_.clear();
    for (std::int32_t at = 0; at < count; ++at) links_[at] = {at - 1, at + 1 < count ? at + 1 : none};
    const auto propose = [&](std::int32_t left) {
      if (left == none || links_[left].next == none) return;
      const Joined joined = join(symbols_[left], symbols_[links_[left].next]);
      if (joined.token >= 0) candidates_.push_back({joined.rank, left, joined.token});
    };
    for (std::int32_t left = 0; left + 1 < count; ++left) propose(left);
    std::make_heap(candidates_.begin(), candidates_.end(), later);
    const auto propose_to_heap = [&](std::int32_t left) {
      const std::size_t before = candidates_.size();
      propose(left);
      if (candidates_.size() > before) std::push_heap(candidates_.begin(), candidates_.end(), later);
    };

    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), later);
      const Candidate candidate = candidates_.back();
      candidates_.pop_back();
      Symbol& left = symbols_[candidate.left];
      const std::int32_t next = links_[candidate.left].next;
      if (left.size == 0 || next == none) continue;
      // The pair may have changed since it was pushed. If it still gives the same token it is joined, as in the
      // reference.
      if (join(left, symbols_[next]).token != candidate.result) continue;
      left.token = candidate.result;
      left.size += symbols_[next].size;
      symbols_[next].size = 0;
      links_[candidate.left].next = links_[next].next;
      if (links_[next].next != none) links_[links_[next].next].previous = candidate.left;
      propose_to_heap(links_[candidate.left].previous);
      propose_to_heap(candidate.left);
    }
    std::erase_if(symbols_, [](const Symbol& symbol) { return symbol.size == 0; });
  }

 private:
  static constexpr std::int32_t none = -1;
  struct Links {
    std::int32_t previous;
    std::int32_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t left;  // index of the left symbol
    Token result;
  };
  static bool later(const Candidate& one, const Candidate& other) {
    return std::tie(one.rank, one.left) > std::tie(other.rank, other.left);
  }

  std::vector<Symbol> symbols_;
  std::vector<Links> links_;
  std::vector<Candidate> candidates_;
};

}  // namespace draftproof
