// SPDX-License-Identifier: MIT
#include "ref/drafts/model_draft.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof {

ModelDraft::ModelDraft(Model& model, int capacity, int draft_max)
    : model_(model), draft_max_(draft_max), cache_(model.new_cache(capacity, std::max(run_max, draft_max + 1))) {}

void ModelDraft::observe(std::span<const Token> run, std::span<const float>) {
  const int rows = static_cast<int>(run.size());
  Transaction window = cache_->begin(rows);
  model_.forward({.tokens = run, .logits_from = rows}, *cache_, outputs_);
  window.commit(rows);
}

void ModelDraft::propose(Token anchor, int limit, Guesses& guesses) {
  REQUIRE(limit >= 1 && limit <= draft_max_, "a draft is asked for as many guesses as it can make");
  const Transaction forgotten = cache_->begin(limit);
  Token token = anchor;
  for (int i = 0; i < limit; ++i) {
    model_.forward({.tokens = std::span(&token, 1)}, *cache_, outputs_);
    token = guess(outputs_.logits_row(0, model_.vocabulary()), guesses);
  }
}

std::span<const float> ModelDraft::row_after(Token anchor, std::span<const Token> guesses) {
  std::vector<Token> tokens = {anchor};
  tokens.insert(tokens.end(), guesses.begin(), guesses.end());
  const int rows = static_cast<int>(tokens.size());
  const Transaction forgotten = cache_->begin(rows);
  model_.forward({.tokens = tokens, .logits_from = rows - 1}, *cache_, outputs_);
  return outputs_.logits_row(0, model_.vocabulary());
}

Fingerprint ModelDraft::digest() const { return cache_->digest(); }

}  // namespace draftproof
