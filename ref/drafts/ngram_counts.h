// SPDX-License-Identifier: MIT
// How often each token followed each n-gram of 1 to 4 tokens.
//
// Time: expected O(1) per call. Memory: up to bytes_per_ngram per distinct n-gram, up to bytes_per_count per distinct
// pair of an n-gram and a token that followed it, and a few KiB.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

/// 1 to 4 tokens.
class Ngram {
 public:
  static constexpr int n_max = 4;
  static constexpr Token none = -1;

  /// The n-gram of these tokens; n_max or fewer.
  explicit Ngram(std::span<const Token> tokens) { std::copy(tokens.begin(), tokens.end(), tokens_.begin()); }
  /// text[end - n .. end).
  Ngram(std::span<const Token> text, std::size_t end, int n)
      : Ngram(text.subspan(end - static_cast<std::size_t>(n), static_cast<std::size_t>(n))) {}

  /// All n_max places; those behind the last token hold `none`.
  const std::array<Token, n_max>& places() const noexcept { return tokens_; }
  int n() const noexcept { return static_cast<int>(std::ranges::find(tokens_, none) - tokens_.begin()); }
  auto operator<=>(const Ngram&) const = default;

 private:
  std::array<Token, n_max> tokens_ = {none, none, none, none};
};

std::uint64_t hash_of(const Ngram& ngram);

/// Entries by key, in open addressing. Entry: has a member `key`. Key: has ==, and a function hash_of(key).
template <class Entry>
class EntryTable {
 public:
  static constexpr int bytes_per_entry = 2 * sizeof(Entry) + 4 * sizeof(int);  // at most, when there are 16 or more
  static constexpr int none = -1;

  const std::vector<Entry>& entries() const noexcept { return entries_; }
  std::size_t bytes() const noexcept { return sizeof(int) * slots_.size() + sizeof(Entry) * entries_.capacity(); }

  /// Returns the index of the entry; `none` when there is none.
  int find(const auto& key) const { return slots_.empty() ? none : slots_[slot_of(key)]; }

  /// Makes room for `more` entries, so that adding them takes no memory.
  void make_room(std::size_t more) {
    const std::size_t max = entries_.size() + more;
    if (max > entries_.capacity()) entries_.reserve(std::max(max, 2 * entries_.size()));
    if (2 * max <= slots_.size()) return;
    std::size_t size = 64;
    while (size < 2 * max) size *= 2;
    std::vector<int> slots(size, none);
    slots_.swap(slots);
    for (std::size_t i = 0; i < entries_.size(); ++i) slots_[slot_of(entries_[i].key)] = static_cast<int>(i);
  }

  /// Returns the index of the entry with this key, which is added as it is when there is none. There must be room.
  int put(const Entry& entry) {
    int& slot = slots_[slot_of(entry.key)];
    if (slot == none) {
      slot = static_cast<int>(entries_.size());
      entries_.push_back(entry);
    }
    return slot;
  }

  Entry& operator[](int index) { return entries_[static_cast<std::size_t>(index)]; }
  const Entry& operator[](int index) const { return entries_[static_cast<std::size_t>(index)]; }

 private:
  /// Returns the slot of the entry, or the empty one where it belongs.
  std::size_t slot_of(const auto& key) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = hash_of(key) & mask;; slot = (slot + 1) & mask) {
      if (slots_[slot] == none || entries_[static_cast<std::size_t>(slots_[slot])].key == key) return slot;
    }
  }

  std::vector<int> slots_;  // indices of entries; a power of two
  std::vector<Entry> entries_;
};

class NgramCounts {
 public:
  /// What followed an n-gram.
  struct Continuations {
    Ngram key;
    std::int64_t total = 0;    // all counts
    Token best = Ngram::none;  // the token with the largest product of count and weight, the smallest of several
    int best_count = 0;
  };
  struct Count {
    struct Key {
      int ngram;  // an index
      Token token;
      bool operator==(const Key&) const = default;
    } key;
    int count = 0;
  };

  static constexpr int bytes_per_ngram = EntryTable<Continuations>::bytes_per_entry;
  static constexpr int bytes_per_count = EntryTable<Count>::bytes_per_entry;

  /// Whether a count of `count` with `weight` comes before that of another token. Exact: a count has 31 bits.
  static bool better(Token token, int count, std::uint64_t weight, Token other, int other_count,
                     std::uint64_t other_weight) {
    using Wide = unsigned __int128;
    const Wide score = static_cast<Wide>(count) * weight;
    const Wide other_score = static_cast<Wide>(other_count) * other_weight;
    return score > other_score || (score == other_score && token < other);
  }

  /// nullptr when nothing followed it.
  const Continuations* find(const Ngram& ngram) const;
  /// 0 when the token never followed it.
  int count(const Ngram& ngram, Token token) const;

  /// Makes room for `more` calls of add(), so that they take no memory.
  void make_room(std::size_t more);
  /// Counts `count` >= 1 more occurrences of the token after the n-gram. There must be room. `weight(token)`: of a
  /// token after this n-gram, always the same.
  template <class Weight>
  void add(const Ngram& ngram, Token token, int count, const Weight& weight) {
    const int index = ngrams_.put({.key = ngram});
    int& counted = counts_[counts_.put({.key = {index, token}})].count;
    counted += count;
    Continuations& known = ngrams_[index];
    known.total += count;
    const bool first = known.best_count == 0;
    if (first || better(token, counted, weight(token), known.best, known.best_count, weight(known.best))) {
      known.best = token;
      known.best_count = counted;
    }
  }

  /// All counts, by n-gram and token.
  struct Row {
    Ngram ngram;
    Token token;
    int count;
  };
  std::vector<Row> sorted() const;

  std::size_t bytes() const noexcept { return ngrams_.bytes() + counts_.bytes(); }

 private:
  EntryTable<Continuations> ngrams_;
  EntryTable<Count> counts_;
};

std::uint64_t hash_of(const NgramCounts::Count::Key& key);

}  // namespace draftproof
