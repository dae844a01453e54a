// SPDX-License-Identifier: MIT
// The base of drafts that propose what those of ik_llama.cpp do, token for token, with their bugs (read at commit
// 8337e4cd3 of 2026-08-15). Unlike the others, they remember their rounds: where they were asked, and how much of their
// proposals was accepted. docs/drafts.md says what they do not reproduce.
#pragma once

#include "ref/drafts/draft_spec.h"
#include "ref/drafts/text_draft.h"

namespace draftproof {

/// Of kinds that have such a draft, too.
inline constexpr DraftOption legacy_option = {"legacy", 0, 0, 1, "1: what ik_llama.cpp proposes, with its bugs"};
bool is_legacy(const DraftStage& stage);

/// What it has learned is a function of the text and of where its rounds began. So forget() keeps those places, and
/// when the text was observed again, the rounds are done again.
class LegacyDraft : public TextDraft {
 public:
  using TextDraft::TextDraft;
  static constexpr int bytes_per_round = 16;  // there may be one for each token

 protected:
  // The calls of the original. `text`: the committed text, whose last token is the anchor; the original is given the
  // tokens before it and the anchor apart.

  /// Before the first round, with the text before the anchor.
  virtual void begin(std::span<const Token>) {}
  /// Returns the proposal, before the loop cuts it to what it asked for.
  virtual std::vector<Token> draft(std::span<const Token> text) = 0;
  /// How many of its draft tokens were accepted; after a round in which it proposed any.
  virtual void accept(int) {}
  /// As when it was constructed.
  virtual void reset() {}

 private:
  void learn(std::span<const Token>, std::size_t) final {}
  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) final;
  void clear() final;

  struct Round {
    int length;  // of the text, with the anchor
    int limit;
  };
  static_assert(2 * sizeof(Round) <= bytes_per_round);
  std::vector<Round> rounds_;
  std::size_t done_ = 0;         // rounds
  std::vector<Token> proposal_;  // of the last one done
};

}  // namespace draftproof
