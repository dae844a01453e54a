// SPDX-License-Identifier: MIT
#include "ref/drafts/model_draft.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof {

ModelDraft::ModelDraft(Model& model, int capacity, int draft_max)
    : model_(model), draft_max_(draft_max), cache_(model.new_cache(capacity, std::max(max_chunk, draft_max + 1))) {}

void ModelDraft::observe(std::span<const Token> committed, std::span<const float>) {
  const int rows = static_cast<int>(committed.size());
  Transaction transaction = cache_->begin(rows);
  model_.forward({.tokens = committed, .logits_from = rows}, *cache_, outputs_);
  transaction.commit(rows);
}

void ModelDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  REQUIRE(limit >= 1 && limit <= draft_max_, "a draft is asked for at most draft_max() draft tokens");
  const Transaction rolled_back = cache_->begin(limit);
  Token token = anchor;
  for (int i = 0; i < limit; ++i) {
    model_.forward({.tokens = std::span(&token, 1)}, *cache_, outputs_);
    token = next_draft_token(outputs_.logits_row(0, model_.vocabulary()), builder);
  }
}

std::span<const float> ModelDraft::row_after(Token anchor, std::span<const Token> draft_tokens) {
  std::vector<Token> tokens = {anchor};
  tokens.insert(tokens.end(), draft_tokens.begin(), draft_tokens.end());
  const int rows = static_cast<int>(tokens.size());
  const Transaction rolled_back = cache_->begin(rows);
  model_.forward({.tokens = tokens, .logits_from = rows - 1}, *cache_, outputs_);
  return outputs_.logits_row(0, model_.vocabulary());
}

Fingerprint ModelDraft::digest() const { return cache_->digest(); }

}  // namespace draftproof
