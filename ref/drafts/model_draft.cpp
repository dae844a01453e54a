// SPDX-License-Identifier: MIT
#include "ref/drafts/model_draft.h"

#include <algorithm>

#include "ref/base/require.h"
#include "ref/drafts/continuation.h"

namespace draftproof {

ModelDraft::ModelDraft(Model& model, int capacity, int draft_max, MinProbability min_probability)
    : model_(model),
      capacity_(capacity),
      draft_max_(draft_max),
      min_probability_(min_probability),
      cache_(new_cache()) {}

std::unique_ptr<Cache> ModelDraft::new_cache() const {
  const int unread = draft_max_ + 1;
  return model_.new_cache(capacity_, std::max(max_chunk, unread + draft_max_));
}

void ModelDraft::forget() {
  proposed_.reset();
  unread_ = {};
  cache_.reset();  // first, so that the memory is never there twice
  cache_ = new_cache();
}

Cache* ModelDraft::context() {
  read();
  return cache_.get();
}

Fingerprint ModelDraft::digest() const {
  read();
  return cache_->digest();
}

void ModelDraft::read() const {
  const int rows = static_cast<int>(unread_.size());
  if (proposed_) {
    proposed_->rows.commit(rows);
    proposed_.reset();
  } else if (rows > 0) {
    Transaction reading = cache_->begin(rows);
    Outputs outputs;
    forward_alone(model_, {.cache = cache_.get(), .tokens = unread_, .logits_from = rows}, outputs);
    reading.commit(rows);
  }
  unread_.clear();
}

bool ModelDraft::take(std::span<const Token> committed) {
  const bool of_round = committed.size() <= static_cast<std::size_t>(draft_max_) + 1;
  if (proposed_ && of_round) {
    const auto proposed = std::span(proposed_->tokens).subspan(unread_.size());
    const auto differs_at = std::ranges::mismatch(committed, proposed).in1;
    std::vector<Token> rest(differs_at, committed.end());
    proposed_->rows.commit(static_cast<int>(unread_.size()) + static_cast<int>(differs_at - committed.begin()));
    proposed_.reset();
    unread_ = std::move(rest);
    return true;
  }
  if (proposed_) read();
  if (unread_.size() + committed.size() > static_cast<std::size_t>(draft_max_) + 1) return false;
  unread_.insert(unread_.end(), committed.begin(), committed.end());
  return true;
}

void ModelDraft::observe(std::span<const Token> committed, std::span<const float> features) {
  ObserveJob job{this, committed, features};
  ModelDrafter(model_).observe(std::span(&job, 1));
  if (job.error) std::rethrow_exception(job.error);
}

void ModelDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  ProposeJob job{this, anchor, limit, &builder};
  ModelDrafter(model_).propose(std::span(&job, 1));
  if (job.error) std::rethrow_exception(job.error);
}

std::span<const float> ModelDraft::row_after(Token anchor, std::span<const Token> draft_tokens) {
  read();
  std::vector<Token> tokens = {anchor};
  tokens.insert(tokens.end(), draft_tokens.begin(), draft_tokens.end());
  const int rows = static_cast<int>(tokens.size());
  const Transaction rolled_back = cache_->begin(rows);
  anchor_ = cache_->end();
  forward_alone(model_, {.cache = cache_.get(), .tokens = tokens, .logits_from = rows - 1}, outputs_);
  return outputs_.logits_row(0, model_.vocabulary());
}

std::unique_ptr<Draft> ModelDrafter::open(int capacity, int draft_max) {
  return std::make_unique<ModelDraft>(model_, capacity, draft_max, min_probability_);
}

void ModelDrafter::propose(std::span<ProposeJob> jobs) {
  std::vector<Continuation> texts;
  for (ProposeJob& job : jobs) {
    auto& draft = static_cast<ModelDraft&>(*job.draft);
    REQUIRE(job.limit >= 1 && job.limit <= draft.draft_max_, "a draft is asked for at most draft_max() draft tokens");
    if (draft.proposed_) draft.read();
    const int unread = static_cast<int>(draft.unread_.size());
    draft.anchor_ = draft.cache_->length() + unread;
    texts.push_back({job, *draft.cache_, draft.cache_->begin(unread + job.limit), draft.unread_});
    texts.back().tokens.push_back(job.anchor);
  }
  extend(texts);
  for (Continuation& text : texts) {
    if (text.job.error) continue;
    text.tokens.resize(text.written);
    static_cast<ModelDraft&>(*text.job.draft).proposed_.emplace(std::move(text.rows), std::move(text.tokens));
  }
}

void ModelDrafter::extend(std::span<Continuation> texts) {
  continue_texts(model_, texts, outputs_, [&](std::size_t i, std::span<const float> logits) -> std::optional<Token> {
    auto& draft = static_cast<ModelDraft&>(*texts[i].job.draft);
    if (draft.min_probability_.stops_before(logits)) return std::nullopt;
    return draft.next_draft_token(logits, *texts[i].job.builder);
  });
}

void ModelDrafter::observe(std::span<ObserveJob> jobs) {
  std::vector<ModelDraft*> reading;
  std::vector<std::span<const Token>> committed;
  for (const ObserveJob& job : jobs) {
    auto& draft = static_cast<ModelDraft&>(*job.draft);
    REQUIRE(!job.committed.empty(), "a draft observes at least one token");
    if (draft.take(job.committed)) continue;
    reading.push_back(&draft);
    committed.push_back(job.committed);
  }
  read(reading);
  for (std::size_t i = 0; i < reading.size(); ++i) reading[i]->unread_.assign(committed[i].begin(), committed[i].end());
  try {
    read(reading);
  } catch (...) {
    for (ModelDraft* const draft : reading) draft->unread_.clear();
    throw;
  }
}

/// Reads what is unread of all drafts, in one pass.
void ModelDrafter::read(std::span<ModelDraft* const> drafts) {
  std::vector<Segment> batch;
  std::vector<Transaction> transactions;
  for (const ModelDraft* const draft : drafts) {
    const int rows = static_cast<int>(draft->unread_.size());
    if (rows == 0) continue;
    transactions.push_back(draft->cache_->begin(rows));
    batch.push_back({.cache = draft->cache_.get(), .tokens = draft->unread_, .logits_from = rows});
  }
  if (batch.empty()) return;
  model_.forward(batch, outputs_);
  for (std::size_t i = 0; i < batch.size(); ++i) transactions[i].commit(batch[i].rows());
  for (ModelDraft* const draft : drafts) draft->unread_.clear();
}

}  // namespace draftproof
