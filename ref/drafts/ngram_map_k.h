// SPDX-License-Identifier: MIT
// ngram-map-k: what followed the last n tokens most recently, if they have occurred often enough. With min_hits = 1 it
// is ngram-simple, prompt lookup decoding (Saxena 2023).
//
// With the committed text t, whose last token is the anchor: an end e of an occurrence has t[e - n .. e) = the last n
// tokens of t, and n <= e < |t|. When there are at least min_hits of them, the draft tokens are t[e], t[e + 1], ... of
// the largest e; where the text ends, they go on with themselves, as a period goes on. At most m.
//
// Example: n = 2, min_hits = 1, t = [1, 2, 3, 4, 2, 3]. `2 3` occurred before, at e = 3: m = 3 gives [4, 2, 3], and
// m = 5 gives [4, 2, 3, 4, 2]. With min_hits = 2 nothing is drafted.
//
// Time: expected O(n) per token. Memory: 4 bytes per token of the text, and up to bytes_per_ngram per distinct n-gram.
#pragma once

#include "ref/drafts/ngram_table.h"
#include "ref/drafts/text_draft.h"

namespace draftproof {

struct NgramMapKSettings {
  int n = 0;         // tokens that must be the same
  int m = 0;         // draft tokens, at most
  int min_hits = 0;  // earlier occurrences, at least
};

class NgramMapKDraft final : public TextDraft {
  using Table = NgramTable<int>;  // occurrences; `end` is that of the last one

 public:
  static constexpr int bytes_per_ngram = Table::bytes_per_ngram;

  NgramMapKDraft(int draft_max, const NgramMapKSettings& settings)
      : TextDraft(std::min(draft_max, settings.m)), min_hits_(settings.min_hits), table_(settings.n) {}

  std::size_t table_bytes() const noexcept { return table_.bytes(); }

 protected:
  void learn(std::span<const Token> text, std::size_t learned) override {
    const int end = static_cast<int>(learned) + 1;
    if (end < table_.n()) return;
    Table::Entry& entry = table_.put(text, end);
    entry.end = end;
    ++entry.value;
  }

  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override {
    const int length = static_cast<int>(text.size());
    if (length < table_.n()) return;
    const Table::Entry* const found = table_.find(text, length);
    if (found != nullptr && found->value >= min_hits_) copy_on(text, found->end, limit, draft_tokens);
  }

  void clear() override { table_.clear(); }

 private:
  int min_hits_;
  Table table_;
};

}  // namespace draftproof
