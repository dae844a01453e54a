// SPDX-License-Identifier: MIT
// ngram-mod: a table of constant size with the token that followed each n-gram last. N-grams are not compared: those
// with one hash share one slot, and the last one to be followed has it.
//
// The hash of an n-gram g, modulo 2^64: h = 0; for each token of g, in order: h = (h + token) * 6364136223846793005; at
// last h = (h xor (h >> 32)) * 6364136223846793005. Its slot is the number that the highest `bits` bits of h make.
//
// With the committed text t, whose last token is the anchor: for i = n, n + 1, ..., |t| - 1, in this order, the slot of
// t[i - n .. i) is set to t[i]. The draft tokens: the token in the slot of the last n tokens, then that in the slot of
// the last n tokens with it, and so on, until a slot is empty or there are m.
//
// Example: n = 2, m = 3, t = [1, 2, 3, 4, 2, 3], no two n-grams in one slot. The slot of `2 3` holds 4, that of `3 4`
// holds 2, that of `4 2` holds 3: the draft tokens are [4, 2, 3].
//
// Time: O(n) per token. Memory: 4 bytes per token of the text, and 4 * 2^bits.
#pragma once

#include <cstdint>

#include "ref/drafts/text_draft.h"

namespace draftproof {

struct NgramModSettings {
  int n = 0;     // tokens that are hashed
  int m = 0;     // draft tokens, at most
  int bits = 0;  // of a slot's number, 1 to 32
};

class NgramModDraft final : public TextDraft {
 public:
  NgramModDraft(int draft_max, const NgramModSettings& settings)
      : TextDraft(std::min(draft_max, settings.m)), n_(static_cast<std::size_t>(settings.n)), bits_(settings.bits) {}

  std::size_t table_bytes() const noexcept { return sizeof(Token) * table_.size(); }

 protected:
  void learn(std::span<const Token> text, std::size_t learned) override {
    if (learned < n_) return;
    if (table_.empty()) table_.assign(std::size_t{1} << bits_, empty);
    table_[slot_of(text.subspan(learned - n_, n_))] = text[learned];
  }

  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override {
    if (text.size() <= n_) return;
    // What the anchor followed is in no slot yet: it is learned when it is observed.
    const std::size_t slot_of_anchor = slot_of(text.subspan(text.size() - n_ - 1, n_));
    window_.assign(text.end() - static_cast<std::ptrdiff_t>(n_), text.end());
    for (int i = 0; i < limit; ++i) {
      const std::size_t slot = slot_of(std::span(window_).last(n_));
      const Token token = slot == slot_of_anchor ? text.back() : table_.empty() ? empty : table_[slot];
      if (token == empty) return;
      draft_tokens.push_back(token);
      window_.push_back(token);
    }
  }

  void clear() override {
    table_ = {};
    window_ = {};
  }

 private:
  static constexpr Token empty = -1;

  std::size_t slot_of(std::span<const Token> ngram) const noexcept {
    constexpr std::uint64_t factor = 6364136223846793005U;
    std::uint64_t hash = 0;
    for (const Token token : ngram) hash = (hash + static_cast<std::uint32_t>(token)) * factor;
    return static_cast<std::size_t>(((hash ^ hash >> 32) * factor) >> (64 - bits_));
  }

  std::size_t n_;
  int bits_;
  std::vector<Token> table_;   // of 2^bits slots, or none while nothing was learned
  std::vector<Token> window_;  // the last n tokens of the text, and the draft tokens
};

}  // namespace draftproof
