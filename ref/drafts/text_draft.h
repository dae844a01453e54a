// SPDX-License-Identifier: MIT
// The base of drafts that look up what followed earlier in the text. They need no model. What they propose is a
// function of the committed text and of their options, and nothing else (but for legacy_draft.h): so every draft token
// is deterministic, and what one has learned from any history of rounds is what a new one learns from the text.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ref/drafts/draft.h"
#include "ref/models/memory.h"

namespace draftproof {

class TextDraft : public Draft {
 public:
  explicit TextDraft(int draft_max) : draft_max_(draft_max) {}

  int draft_max() const override { return draft_max_; }
  ProposalWork work() const override { return ProposalWork::none; }
  void observe(std::span<const Token> committed, std::span<const float>) override {
    text_.insert(text_.end(), committed.begin(), committed.end());
  }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override;
  bool needs_no_snapshot() const override { return true; }
  void skip(std::span<const Token> prefix) override { observe(prefix, {}); }
  /// A digest of the text.
  Fingerprint digest() const override;
  std::vector<DraftPositions> positions() const override {
    return {{.held = static_cast<int>(text_.size()), .anchor = anchor_}};
  }

  /// Takes back the tokens observed last, which it has not been asked to continue.
  void take_back(std::size_t count) { text_.resize(text_.size() - count); }

 protected:
  /// Learns text[learned], of which it has learned everything before.
  virtual void learn(std::span<const Token> text, std::size_t learned) = 0;
  /// Appends to `draft_tokens` at most `limit` tokens that shall follow `text`, whose last token is the anchor.
  /// Everything before the anchor has been learned.
  virtual void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) = 0;
  /// Forgets what was learned, and gives back its memory.
  virtual void clear() = 0;
  /// What was observed.
  std::span<const Token> text() const noexcept { return text_; }

 private:
  int draft_max_;
  std::vector<Token> text_;
  std::size_t learned_ = 0;
  int anchor_ = -1;  // place of the anchor in the text, in the last proposal
  std::vector<Token> draft_tokens_;
};

/// Appends `count` tokens: those of the text from `from` on, then, where it ends, those appended.
void copy_on(std::span<const Token> text, int from, int count, std::vector<Token>& draft_tokens);

/// Opens one draft of the kind for each sequence; they share nothing. `Kind`: constructed with draft_max and the
/// settings.
template <class Kind, class Settings>
class TextDrafter final : public Drafter {
 public:
  TextDrafter(int draft_max, const Settings& settings) : draft_max_(draft_max), settings_(settings) {}
  std::unique_ptr<Draft> open(int capacity, int draft_max) override {
    return std::make_unique<Kind>(std::min(draft_max > 0 ? draft_max : draft_max_, capacity), settings_);
  }

 private:
  int draft_max_;  // when no other is asked for
  Settings settings_;
};

/// `settings.m`: draft tokens, at most.
template <class Kind, class Settings>
std::unique_ptr<Drafter> text_drafter(const Settings& settings) {
  return std::make_unique<TextDrafter<Kind, Settings>>(settings.m, settings);
}

/// The need of a draft that keeps so much beside each token of the text.
MemoryNeed need_of_text(std::uint64_t bytes_per_token);

}  // namespace draftproof
