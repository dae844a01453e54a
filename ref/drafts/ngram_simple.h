// SPDX-License-Identifier: MIT
// ngram-simple: what followed the last n tokens where they occurred before, most recently (prompt lookup decoding,
// Saxena 2023).
//
// With the committed text t, whose last token is the anchor: e is the largest end < |t| of an occurrence of the last n
// tokens. The draft tokens are t[e], t[e + 1], ...; where the text ends, they go on with themselves, as a period goes
// on. At most m, and none when there is no occurrence.
//
// Time: expected O(n) per token. Memory: 4 bytes per token of the text, and up to bytes_per_ngram per distinct n-gram.
#pragma once

#include "ref/drafts/ngram_table.h"
#include "ref/drafts/text_draft.h"

namespace draftproof {

struct NgramSimpleSettings {
  int n = 0;  // tokens that must be the same
  int m = 0;  // draft tokens, at most
};

class NgramSimpleDraft final : public TextDraft {
  struct Nothing {};
  using Table = NgramTable<Nothing>;  // `end` is that of the last occurrence

 public:
  static constexpr int bytes_per_ngram = Table::bytes_per_ngram;

  NgramSimpleDraft(int draft_max, const NgramSimpleSettings& settings)
      : TextDraft(std::min(draft_max, settings.m)), table_(settings.n) {}

 protected:
  void learn(std::span<const Token> text, std::size_t learned) override {
    const int end = static_cast<int>(learned) + 1;
    if (end >= table_.n()) table_.put(text, end).end = end;
  }

  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override {
    const int length = static_cast<int>(text.size());
    if (length < table_.n()) return;
    const auto* const found = table_.find(text, length);
    if (found != nullptr) copy_on(text, found->end, limit, draft_tokens);
  }

  void clear() override { table_.clear(); }

 private:
  Table table_;
};

}  // namespace draftproof
