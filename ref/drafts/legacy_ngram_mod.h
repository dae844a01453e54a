// SPDX-License-Identifier: MIT
// ngram-mod as ik_llama.cpp has it. A table of 2^bits slots holds the token that followed each n-gram last. The slot of
// an n-gram is h mod 2^bits, with h = h * 6364136223846793005 + token, modulo 2^64, over its tokens.
//
// Before the first round all n-grams before the anchor are learned; then the table is emptied if more than a quarter of
// its slots is used. A round learns only when more than 32 - n tokens came since this was done
// last: then those before the anchor. The draft tokens: the token in the slot of the last n
// tokens, and so on, until a slot is empty or there are m. After three proposals in a row of which less than half was
// accepted, of the tokens before the loop cut them, the table is emptied, and everything learned again.
//
// Example: n = 2, first round, t = [1, 2, 3, 4, 2, 3]. The slot of `2 3` holds 4 and that of `3 4` holds 2. The anchor
// 3 is not learned, so that of `4 2` is empty: the draft tokens are [4, 2].
//
// The original has one table for all sequences; this one is of one sequence.
//
// Time: O(n) per token. Memory: 4 * 2^bits, and the text.
#pragma once

#include <cstdint>

#include "ref/drafts/legacy_draft.h"
#include "ref/drafts/ngram_mod.h"

namespace draftproof {

class LegacyNgramModDraft final : public LegacyDraft {
 public:
  LegacyNgramModDraft(int draft_max, const NgramModSettings& settings)
      : LegacyDraft(std::min(draft_max, settings.m)),
        n_(static_cast<std::size_t>(settings.n)),
        m_(static_cast<std::size_t>(settings.m)),
        size_(std::size_t{1} << settings.bits) {}

 protected:
  void begin(std::span<const Token> text) override {
    if (text.size() < n_) return;
    learn_up_to(text);
    if (4 * used_ > size_) empty_table();
  }

  std::vector<Token> draft(std::span<const Token> text) override {
    const auto before = text.first(text.size() - 1);
    drafted_ = 0;
    if (before.size() < n_) return {};
    if (learned_ + 32 < before.size()) learn_up_to(before);
    const auto last = text.last(n_);
    std::vector<Token> window(last.begin(), last.end());
    while (window.size() < n_ + m_) {
      const Token token = table_.empty() ? empty : table_[slot_of(std::span(window).last(n_))];
      if (token == empty) break;
      window.push_back(token);
    }
    drafted_ = window.size() - n_;
    return {window.begin() + static_cast<std::ptrdiff_t>(n_), window.end()};
  }

  void accept(int accepted) override {
    if (2 * static_cast<std::size_t>(accepted) >= drafted_) {
      low_ = 0;
    } else if (++low_ == 3) {
      empty_table();
      low_ = 0;
      learned_ = 0;
    }
  }

  void reset() override {
    empty_table();
    learned_ = 0;
    drafted_ = 0;
    low_ = 0;
  }

 private:
  static constexpr Token empty = -1;

  std::size_t slot_of(std::span<const Token> ngram) const noexcept {
    std::uint64_t hash = 0;
    for (const Token token : ngram) hash = hash * 6364136223846793005U + static_cast<std::uint64_t>(token);
    return hash & (size_ - 1);
  }

  void learn_up_to(std::span<const Token> text) {
    if (table_.empty()) table_.assign(size_, empty);
    for (std::size_t i = learned_; i + n_ < text.size(); ++i) {
      Token& token = table_[slot_of(text.subspan(i, n_))];
      if (token == empty) ++used_;
      token = text[i + n_];
    }
    learned_ = text.size() - n_;
  }

  void empty_table() {
    table_ = {};
    used_ = 0;
  }

  std::size_t n_;
  std::size_t m_;
  std::size_t size_;
  std::vector<Token> table_;  // or none, while nothing is in it
  std::size_t used_ = 0;      // slots
  std::size_t learned_ = 0;   // n-grams
  std::size_t drafted_ = 0;   // tokens of the last proposal
  int low_ = 0;               // proposals in a row of which less than half was accepted
};

}  // namespace draftproof
