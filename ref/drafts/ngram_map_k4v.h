// SPDX-License-Identifier: MIT
// ngram-map-k4v: the most frequent of the continuations of the last n tokens, if it outweighs the others.
//
// With the committed text t, whose last token is the anchor: an end e of an occurrence has t[e - n .. e) = the last n
// tokens of t, and n <= e and e + m < |t|; its continuation t[e .. e + m) lies before the anchor. Of the distinct
// continuations, by ascending e, the first four are kept. Let c be the count of the most frequent one of them, and o
// that of all other occurrences, kept or not. The draft tokens are that continuation when c + o >= min_hits, c >= 1 and
// c >= 2 * o; so no two can tie.
//
// Example: n = 2, m = 2, min_hits = 1, t = [1, 2, 7, 8, 1, 2, 7, 8, 1, 2, 9, 9, 1, 2]. `1 2` was followed by `7 8`
// twice and by `9 9` once: c = 2, o = 1, and the draft tokens are [7, 8]. After [1, 2, 7, 8, 1, 2, 9, 9, 1, 2] c and o
// are 1, and nothing is drafted.
//
// Time: expected O(n + m) per token. Memory: 4 bytes per token of the text, and up to bytes_per_ngram per distinct
// n-gram.
#pragma once

#include <array>

#include "ref/drafts/ngram_table.h"
#include "ref/drafts/text_draft.h"

namespace draftproof {

struct NgramMapK4vSettings {
  int n = 0;         // tokens that must be the same
  int m = 0;         // tokens of a continuation
  int min_hits = 0;  // earlier occurrences, at least
};

class NgramMapK4vDraft final : public TextDraft {
  struct Continuations {
    int occurrences = 0;
    std::array<int, 4> from = {};   // where each kept one was first
    std::array<int, 4> count = {};  // 0: none is kept here, nor later
  };
  using Table = NgramTable<Continuations>;

 public:
  static constexpr int bytes_per_ngram = Table::bytes_per_ngram;

  NgramMapK4vDraft(int draft_max, const NgramMapK4vSettings& settings)
      : TextDraft(std::min(draft_max, settings.m)), settings_(settings), table_(settings.n) {}

  std::size_t table_bytes() const noexcept { return table_.bytes(); }

 protected:
  void learn(std::span<const Token> text, std::size_t learned) override {
    const int end = static_cast<int>(learned) + 1 - settings_.m;
    if (end < settings_.n) return;
    Continuations& known = table_.put(text, end).value;
    ++known.occurrences;
    const auto at = [&](int from) { return text.begin() + from; };
    for (std::size_t i = 0; i < known.count.size(); ++i) {
      if (known.count[i] == 0) known.from[i] = end;
      if (!std::equal(at(end), at(end + settings_.m), at(known.from[i]))) continue;
      ++known.count[i];
      return;
    }
  }

  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override {
    const int length = static_cast<int>(text.size());
    if (length < settings_.n) return;
    const Table::Entry* const found = table_.find(text, length);
    if (found == nullptr || found->value.occurrences < settings_.min_hits) return;
    const Continuations& known = found->value;
    const auto best = static_cast<std::size_t>(std::ranges::max_element(known.count) - known.count.begin());
    if (known.count[best] >= 2 * std::int64_t{known.occurrences - known.count[best]}) {
      copy_on(text, known.from[best], limit, draft_tokens);
    }
  }

  void clear() override { table_.clear(); }

 private:
  NgramMapK4vSettings settings_;
  Table table_;
};

}  // namespace draftproof
