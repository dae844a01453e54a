// SPDX-License-Identifier: MIT
#include "ref/drafts/model_draft.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {

ModelDraft::ModelDraft(Model& model, int capacity, int draft_max, MinProbability min_probability)
    : model_(model),
      capacity_(capacity),
      draft_max_(draft_max),
      min_probability_(min_probability),
      cache_(new_cache()) {}

std::unique_ptr<Cache> ModelDraft::new_cache() const {
  return model_.new_cache(capacity_, std::max(max_chunk, draft_max_ + 1));
}

void ModelDraft::forget() {
  cache_.reset();  // first, so that the memory is never there twice
  cache_ = new_cache();
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
  struct Writer {
    ProposeJob& job;
    ModelDraft& draft;
    Transaction rolled_back;
    Token token;  // the model continues with it
    bool done = false;
  };
  std::vector<Writer> writers;
  for (ProposeJob& job : jobs) {
    auto& draft = static_cast<ModelDraft&>(*job.draft);
    REQUIRE(job.limit >= 1 && job.limit <= draft.draft_max_, "a draft is asked for at most draft_max() draft tokens");
    writers.push_back({job, draft, draft.cache_->begin(job.limit), job.anchor});
    draft.anchor_ = draft.cache_->end();
  }
  std::vector<Segment> batch;
  std::vector<Writer*> in_batch;
  for (int step = 0;; ++step) {
    batch.clear();
    in_batch.clear();
    for (Writer& writer : writers) {
      if (writer.job.error || writer.done || step >= writer.job.limit) continue;
      batch.push_back({.cache = writer.draft.cache_.get(), .tokens = std::span(&writer.token, 1)});
      in_batch.push_back(&writer);
    }
    if (batch.empty()) return;
    model_.forward(batch, outputs_);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Writer& writer = *in_batch[i];
      const SegmentOutput& output = outputs_.segments[i];
      try {
        if (!output.error.empty()) throw Error(output.error);
        writer.done = writer.draft.min_probability_.stops_before(output.logits);
        if (!writer.done) writer.token = writer.draft.next_draft_token(output.logits, *writer.job.builder);
      } catch (...) {
        writer.job.error = std::current_exception();
      }
    }
  }
}

void ModelDrafter::observe(std::span<ObserveJob> jobs) {
  std::vector<Segment> batch;
  std::vector<Transaction> transactions;
  for (const ObserveJob& job : jobs) {
    const int rows = static_cast<int>(job.committed.size());
    Cache& cache = *static_cast<ModelDraft&>(*job.draft).cache_;
    transactions.push_back(cache.begin(rows));
    batch.push_back({.cache = &cache, .tokens = job.committed, .logits_from = rows});
  }
  model_.forward(batch, outputs_);
  for (std::size_t i = 0; i < jobs.size(); ++i) transactions[i].commit(batch[i].rows());
}

}  // namespace draftproof
