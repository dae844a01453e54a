// SPDX-License-Identifier: MIT
// ngram-map-k and ngram-map-k4v as ik_llama.cpp has them. L: the tokens before the anchor; B: the L of the first round.
//
// Nothing when L < 2 n + m. An occurrence of the last n tokens is looked for: in a table of 2^18 places by hash, in
// which the first n-gram of a hash stays for good, and others of the same hash are not found; then among the places
// that were not offered to the table yet: first those up to B - n - m - 1, then those from B + 1 up to L - n - m - 1,
// each time from the last one down. Then all of these are offered to the table, in this order. Place 0 is never found,
// nor are those from B - n - m to B.
//
// Each n-gram that was found has an entry: how often it was found, and up to four values, each with a count and the
// number of its draft tokens accepted last, m at first. No more draft tokens than that are ever proposed again: a value
// of which none was accepted is never drafted again.
//
// ngram-map-k: the m tokens that follow the place found. min_hits has no effect.
// ngram-map-k4v: nothing before the n-gram was found min_hits times. Values are the distinct m tokens after the n-gram,
// the first four of them. They are counted from the place found last to the one found now, both included, so that a
// place found twice counts twice. The first of those with the largest count decides; nothing when that is less than
// twice the sum of the other three. But the draft tokens are those after the place found, whatever its value.
//
// Example: n = 2, m = 3, min_hits = 1, first round. After [9, 1, 2, 3, 4, 5, 1, 2], B is 7 and place 1 the only one
// that is looked at: both kinds draft [3, 4, 5]. After [1, 2, 3, 4, 5, 6, 1, 2] nothing is drafted: `1 2` is at place
// 0.
//
// Time: O(L n) per round at worst. Memory: 1 MiB, the text, and bytes_per_round per round.
#pragma once

#include <array>
#include <cstdint>

#include "ref/drafts/legacy_draft.h"

namespace draftproof {

struct LegacyNgramMapSettings {
  int n = 0;
  int m = 0;
  int min_hits = 0;
  bool values = false;  // ngram-map-k4v
};

class LegacyNgramMapDraft final : public LegacyDraft {
  struct Value {
    std::size_t from = 0;  // of its tokens; 0: none is kept here, nor later
    int count = 0;
    int accepted = 0;
  };
  struct Entry {
    std::size_t place = 0;    // of the n-gram
    std::size_t counted = 0;  // the place up to which values were counted
    int found = 0;
    std::array<Value, 4> values = {};
  };

 public:
  static constexpr int table_size = 1 << 18;
  static constexpr std::uint64_t table_bytes = table_size * sizeof(std::uint32_t);
  static constexpr int bytes_per_round = LegacyDraft::bytes_per_round + 2 * sizeof(Entry);

  LegacyNgramMapDraft(int draft_max, const LegacyNgramMapSettings& settings)
      : LegacyDraft(std::min(draft_max, settings.m)),
        settings_(settings),
        n_(static_cast<std::size_t>(settings.n)),
        m_(static_cast<std::size_t>(settings.m)) {}

 protected:
  void begin(std::span<const Token> text) override { first_length_ = text.size(); }
  std::vector<Token> draft(std::span<const Token> text) override;
  void accept(int accepted) override { drafted_.accepted(entries_) = accepted; }
  void reset() override;

 private:
  /// The value that decided the last draft tokens.
  struct Drafted {
    std::size_t entry = 0;
    std::size_t value = 0;
    int& accepted(std::vector<Entry>& entries) const { return entries[entry].values[value].accepted; }
  };

  std::uint32_t& slot_of(std::span<const Token> ngram);
  std::size_t find(std::span<const Token> text);
  std::size_t entry_of(std::span<const Token> text, std::size_t place);
  void count_values(std::span<const Token> text, std::size_t place, Entry& entry) const;

  LegacyNgramMapSettings settings_;
  std::size_t n_;
  std::size_t m_;
  std::size_t first_length_ = 0;
  std::vector<std::uint32_t> table_;  // places; 0: none
  std::size_t last_in_table_ = 0;     // every place up to this one was offered to the table
  std::vector<Entry> entries_;
  Drafted drafted_;
};

}  // namespace draftproof
