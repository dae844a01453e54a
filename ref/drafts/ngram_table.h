// SPDX-License-Identifier: MIT
// The n-grams of a text, each with the place where it occurred last and a value. A hash table with open addressing
// whose keys are places in the text, compared token by token: no two n-grams are ever taken for each other.
//
// Memory: one int per slot, at most 4 slots per n-gram (at least 64), and one Entry per n-gram. Time: expected O(n) per
// call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

template <class Value>
class NgramTable {
 public:
  struct Entry {
    int end;  // the n-gram is text[end - n .. end)
    Value value;
  };

  static constexpr int bytes_per_ngram = 4 * sizeof(int) + sizeof(Entry);  // at most, when there are 16 or more

  explicit NgramTable(int n) : n_(n) {}

  int n() const noexcept { return n_; }
  std::size_t size() const noexcept { return entries_.size(); }
  /// Slots and entries.
  std::size_t bytes() const noexcept { return sizeof(int) * slots_.size() + sizeof(Entry) * entries_.size(); }

  /// Returns the entry of the n-gram `key`; nullptr when there is none. `text` begins with the text of all calls of
  /// put.
  const Entry* find(std::span<const Token> text, std::span<const Token> key) const {
    if (slots_.empty()) return nullptr;
    const int entry = slots_[slot_of(text, key)];
    return entry == none ? nullptr : &entries_[static_cast<std::size_t>(entry)];
  }
  /// Of the n-gram text[end - n .. end).
  const Entry* find(std::span<const Token> text, int end) const { return find(text, ngram(text, end)); }

  /// Returns the entry of the n-gram text[end - n .. end), new with this value when there was none. Its `end` stays
  /// where it was. Valid until the next call.
  Entry& put(std::span<const Token> text, int end, Value value = {}) {
    if (2 * (entries_.size() + 1) > slots_.size()) grow(text);
    int& slot = slots_[slot_of(text, ngram(text, end))];
    if (slot == none) {
      entries_.push_back({end, std::move(value)});
      slot = static_cast<int>(entries_.size()) - 1;
    }
    return entries_[static_cast<std::size_t>(slot)];
  }

  void clear() {
    slots_ = {};
    entries_ = {};
  }

 private:
  static constexpr int none = -1;

  std::span<const Token> ngram(std::span<const Token> text, int end) const {
    return text.subspan(static_cast<std::size_t>(end - n_), static_cast<std::size_t>(n_));
  }

  /// Returns the slot of the n-gram, or the empty one where it belongs.
  std::size_t slot_of(std::span<const Token> text, std::span<const Token> key) const {
    std::uint64_t hash = 0x9e3779b97f4a7c15u;
    for (const Token token : key) {
      hash = (hash ^ static_cast<std::uint32_t>(token)) * 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
      if (slots_[slot] == none) return slot;
      const auto other = text.begin() + (entries_[static_cast<std::size_t>(slots_[slot])].end - n_);
      if (std::equal(key.begin(), key.end(), other)) return slot;
    }
  }

  void grow(std::span<const Token> text) {
    std::vector<int> slots(std::max<std::size_t>(64, 2 * slots_.size()), none);
    slots_.swap(slots);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      slots_[slot_of(text, ngram(text, entries_[i].end))] = static_cast<int>(i);
    }
  }

  int n_;
  std::vector<int> slots_;  // indices of entries; a power of two
  std::vector<Entry> entries_;
};

}  // namespace draftproof
