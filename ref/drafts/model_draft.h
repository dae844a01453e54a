// SPDX-License-Identifier: MIT
// A language model as a draft: it continues the committed text autoregressively, one token at a time, in a transaction
// of its own cache that is rolled back afterwards.
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
  /// Adds the next draft token, chosen by a row of logits, to `builder`. Returns the token that the model continues
  /// with.
  virtual Token next_draft_token(std::span<const float> logits, ProposalBuilder& builder) {
    return builder.draw(logits);
  }

  /// Returns the model's logits after the observed text, the anchor and these draft tokens. Valid until the next
  /// forward pass.
  std::span<const float> row_after(Token anchor, std::span<const Token> draft_tokens);

 private:
  Model& model_;
  int draft_max_;
  std::unique_ptr<Cache> cache_;
  Outputs outputs_;
};

}  // namespace draftproof
