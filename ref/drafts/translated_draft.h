// SPDX-License-Identifier: MIT
// A language model with a tokenizer of its own as a draft: the text so far is translated into its tokens
// (ref/text/translated_text.h), the model continues it greedily, and what it writes is translated into the target's.
//
// What it proposes is a function of the committed text: the text is encoded from its beginning in every round, and the
// cache is a copy of what reading these tokens gives. It is kept from round to round as far as they are the same. Of
// the tokens of a text the last ones are read again in each round, in the pass that would be made anyway, because what
// the text goes on with may change them; so a cache hardly ever has to forget something, which recurrent layers cannot:
// then it reads the text again.
//
// Example: the text is `a red`, and the draft goes on with ` apple pie`. The target's tokenizer makes ` apple` and
// ` pie` of it; ` pie` could become longer, so ` apple` is proposed. Where the text is `a red ap` and the draft goes on
// with `ple pie`, the target's token ` apple` lies on both sides of the end of the text: nothing is proposed.
//
// It ends a proposal early, or proposes nothing, where translation does; and it proposes nothing once the text has more
// of its tokens than its cache has room for. Draft tokens are deterministic, so `matching` gives the text of plain
// decoding and `rejection` its distribution.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "ref/drafts/text_draft.h"
#include "ref/models/model.h"
#include "ref/text/tokenizer.h"
#include "ref/text/translated_text.h"

namespace draftproof {

/// What the drafts of all sequences share.
struct TranslatedModel {
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;
  Tokenizer target_tokenizer;
  int target_vocabulary;                          // rows of the target: tokens from here on are not proposed
  int context = std::numeric_limits<int>::max();  // of the model's own tokens a text has at most so many, if it has
};

class TranslatedDraft final : public TextDraft {
 public:
  /// The cache has room for so many tokens of the draft per position of the target's text, if the model has.
  static constexpr int tokens_per_position = 4;
  /// Tokens of the draft that may be drafted for each one of the target, which often says more.
  static constexpr int passes_per_draft_token = 4;
  /// Tokens at the end of a text that are read again in each round.
  static constexpr int read_again = 8;

  /// `shared` outlives the draft.
  TranslatedDraft(const TranslatedModel& shared, int capacity, int draft_max);

  ProposalWork work() const override { return ProposalWork::as_asked; }
  /// The length of the first text that it was asked about and whose translation did not fit its cache, when none has
  /// fitted since.
  int reach() const override { return reach_; }
  /// A digest of the text and of what the cache holds of it.
  Fingerprint digest() const override;

 protected:
  void learn(std::span<const Token> text, std::size_t learned) override { text_->append(text[learned]); }
  void continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) override;
  void clear() override;

 private:
  std::unique_ptr<Cache> new_cache() const;
  bool can_read(std::span<const Token> tokens) const;
  /// Makes the cache hold these tokens of a text that can be read, but for the last ones.
  void settle(std::span<const Token> tokens) const;
  void read(std::span<const Token> tokens, int logits_from) const;

  const TranslatedModel& shared_;
  int capacity_;
  int reach_ = std::numeric_limits<int>::max();
  std::optional<TranslatedText> text_;  // what was learned
  // Mutable because what they hold follows from the text that is asked about.
  mutable std::unique_ptr<Cache> cache_;
  mutable std::vector<Token> read_;  // that the cache holds
  mutable Outputs outputs_;
};

class TranslatedDrafter final : public Drafter {
 public:
  explicit TranslatedDrafter(TranslatedModel shared) : shared_(std::move(shared)) {}
  std::unique_ptr<Draft> open(int capacity, int draft_max) override;

 private:
  TranslatedModel shared_;
};

}  // namespace draftproof
