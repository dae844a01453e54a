// SPDX-License-Identifier: MIT
// A plain model as draft: it continues the committed text by itself, one token at a time, in a window of its own cache
// that is forgotten afterwards.
#pragma once

#include <memory>
#include <vector>

#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof {

class ModelDraft : public Draft {
 public:
  /// `model` outlives the draft and has the target's vocabulary.
  ModelDraft(Model& model, int capacity, int draft_max);

  int draft_max() const override { return draft_max_; }
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  Fingerprint digest() const override;

 protected:
  /// How a row of logits becomes the next draft token; returns the token the model continues with.
  virtual Token draft_token(std::span<const float> logits, ProposalBuilder& builder) { return builder.draw(logits); }

  /// The model's row after what was observed, the anchor and these draft tokens. Lives until the next.
  std::span<const float> row_after(Token anchor, std::span<const Token> draft_tokens);

 private:
  Model& model_;
  int draft_max_;
  std::unique_ptr<Cache> cache_;
  Outputs outputs_;
};

}  // namespace draftproof
