// SPDX-License-Identifier: MIT
// A language model as a draft: it continues the committed text autoregressively, one token at a time, in a transaction
// of its own cache. What the text takes of the proposal needs no other pass: its rows are committed. The rest of the
// round, most often nothing or one token, it reads in the first pass of the next proposal, or once its state is looked
// at.
//
// Example: the text is [1, 2, 3], and the cache holds 1 and 2. The draft reads the anchor 3 and draws 4, then reads 4
// and draws 5: the proposal is [4, 5]. Where the text takes 4 and goes on with 9, the rows of 3 and 4 are committed,
// and 9 is the next anchor. Where it takes 4 and 5, 5 is left to be read with the next proposal.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ref/drafts/draft.h"
#include "ref/drafts/most_probable.h"
#include "ref/models/model.h"

namespace draftproof {

struct Continuation;  // continuation.h

class ModelDraft : public Draft {
 public:
  /// `model` outlives the draft and has the target's vocabulary.
  ModelDraft(Model& model, int capacity, int draft_max, MinProbability min_probability = {});

  int draft_max() const override { return draft_max_; }
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override;
  Cache* context() override;
  Fingerprint digest() const override;
  std::vector<DraftPositions> positions() const override {
    return {{.held = cache_->length(), .unread = static_cast<int>(unread_.size()), .anchor = anchor_}};
  }

 protected:
  /// Adds the next draft token, chosen by a row of logits, to `builder`. Returns the token that the model continues
  /// with.
  virtual Token next_draft_token(std::span<const float> logits, ProposalBuilder& builder) {
    return builder.draw(logits);
  }

  /// Returns the model's logits after the observed text, the anchor and these draft tokens. Valid until the next
  /// forward pass.
  std::span<const float> row_after(Token anchor, std::span<const Token> draft_tokens);

 private:
  friend class ModelDrafter;
  std::unique_ptr<Cache> new_cache() const;
  /// Reads what is unread, and drops the rows of the last proposal.
  void read() const;
  /// Takes over committed tokens without a pass. Returns whether it could.
  bool take(std::span<const Token> committed);

  /// The rows of the last proposal: of what was unread, of the anchor and of draft tokens.
  struct Proposed {
    Transaction rows;
    std::vector<Token> tokens;
  };

  Model& model_;
  int capacity_;
  int draft_max_;
  MinProbability min_probability_;
  std::unique_ptr<Cache> cache_;
  int anchor_ = -1;  // position of the anchor in the last proposal
  Outputs outputs_;

  // Mutable because it counts as observed wherever the draft is looked at.
  mutable std::vector<Token> unread_;
  mutable std::optional<Proposed> proposed_;
};

/// Drafts over one model: each step of all proposals is one forward pass, and so is what all drafts observe.
class ModelDrafter : public Drafter {
 public:
  /// `model` outlives the drafter and its drafts, which are ModelDrafts that do not override observe.
  explicit ModelDrafter(Model& model, MinProbability min_probability = {})
      : model_(model), min_probability_(min_probability) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  void propose(std::span<ProposeJob> jobs) override;
  void observe(std::span<ObserveJob> jobs) override;

 protected:
  /// Adds the draft tokens of all jobs, whose tokens so far are what is unread and the anchor. Leaves in `tokens` those
  /// whose rows are in the cache, as many as `written`, or more.
  virtual void extend(std::span<Continuation> texts);

  Model& model_;
  Outputs outputs_;

 private:
  void read(std::span<ModelDraft* const> drafts);

  MinProbability min_probability_;
};

}  // namespace draftproof
