// SPDX-License-Identifier: MIT
// A draft model whose vocabulary is a little shorter or longer than its target's (ref/text/vocabulary_match.h), with
// rows as long as the target's. So it never proposes a token that the target does not have, and what it draws from is
// exactly the row that is seen here.
//
// A longer row loses the tokens from the target's vocabulary on. A shorter one gets minus infinity for the tokens that
// the draft does not have: it never proposes them. Where the text has such a token, the draft reads its token 0, so
// what it keeps of a text is a function of the text, and positions stay those of the target.
//
// Example: a target of 100 tokens. Of a draft of 102 tokens the logits of 100 and 101 are cut off. A draft of 98 tokens
// never proposes 98 and 99, and where the text has 99 it reads 0.
#pragma once

#include <memory>
#include <vector>

#include "ref/models/model.h"

namespace draftproof {

class FittedModel final : public Model {
 public:
  FittedModel(std::unique_ptr<Model> inner, int vocabulary) : inner_(std::move(inner)), vocabulary_(vocabulary) {}

  int vocabulary() const override { return vocabulary_; }
  int context() const override { return inner_->context(); }
  int layers() const override { return inner_->layers(); }
  int hidden() const override { return inner_->hidden(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return inner_->new_cache(capacity, max_pending_rows);
  }
  void forward(std::span<const Segment> batch, Outputs& outputs) override;

 private:
  std::unique_ptr<Model> inner_;
  int vocabulary_;
  std::vector<Token> tokens_;  // of a batch, as the draft reads them
  Outputs inner_outputs_;
};

}  // namespace draftproof
