// SPDX-License-Identifier: MIT
#include "ref/drafts/chain.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof {

ChainDraft::ChainDraft(std::vector<std::unique_ptr<Draft>> stages) : stages_(std::move(stages)) {
  for (const auto& stage : stages_) {
    if (stage->reads_text_only()) {
      text_.push_back(static_cast<TextDraft*>(stage.get()));
      continue;
    }
    REQUIRE(network_ == nullptr, "a chain has at most one stage with a cache");
    network_ = stage.get();
  }
}

int ChainDraft::draft_max() const {
  int most = 0;
  for (const auto& stage : stages_) most = std::max(most, stage->draft_max());
  return most;
}

std::span<const int> ChainDraft::taps() const {
  return network_ != nullptr ? network_->taps() : std::span<const int>();
}

Cache* ChainDraft::context() { return network_ != nullptr ? network_->context() : nullptr; }

void ChainDraft::observe_text(std::span<const Token> committed) {
  std::size_t done = 0;
  try {
    for (; done < text_.size(); ++done) text_[done]->observe(committed, {});
  } catch (...) {
    for (std::size_t i = 0; i < done; ++i) text_[i]->take_back(committed.size());
    throw;
  }
}

void ChainDraft::take_back(std::size_t count) {
  for (TextDraft* const stage : text_) stage->take_back(count);
}

void ChainDraft::observe(std::span<const Token> committed, std::span<const float> features) {
  observe_text(committed);
  if (network_ == nullptr) return;
  try {
    network_->observe(committed, features);
  } catch (...) {
    take_back(committed.size());
    throw;
  }
}

void ChainDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  for (const auto& stage : stages_) {
    const int most = std::min(limit, stage->draft_max());
    if (most > 0) stage->propose(anchor, most, builder);
    if (builder.size() > 0) return;
  }
}

void ChainDraft::forget() {
  for (const auto& stage : stages_) stage->forget();
}

void ChainDraft::skip(std::span<const Token> prefix) {
  for (const auto& stage : stages_) stage->skip(prefix);
}

Fingerprint ChainDraft::digest() const {
  Digest digest;
  for (const auto& stage : stages_) {
    const Fingerprint one = stage->digest();
    digest.add(one.high);
    digest.add(one.low);
  }
  return digest.value();
}

std::unique_ptr<Draft> ChainDrafter::open(int capacity, int draft_max) {
  std::vector<std::unique_ptr<Draft>> drafts;
  for (const auto& stage : stages_) drafts.push_back(stage->open(capacity, draft_max));
  return std::make_unique<ChainDraft>(std::move(drafts));
}

void ChainDrafter::propose(std::span<ProposeJob> jobs) {
  std::vector<ProposeJob> asked;
  std::vector<ProposeJob*> of;  // the job that each of `asked` is for
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    asked.clear();
    of.clear();
    for (ProposeJob& job : jobs) {
      Draft& draft = *static_cast<ChainDraft&>(*job.draft).stages_[i];
      const int most = std::min(job.limit, draft.draft_max());
      if (job.error || job.builder->size() > 0 || most == 0) continue;
      asked.push_back({&draft, job.anchor, most, job.builder});
      of.push_back(&job);
    }
    if (asked.empty()) continue;
    stages_[i]->propose(asked);
    for (std::size_t k = 0; k < asked.size(); ++k) of[k]->error = asked[k].error;
  }
}

void ChainDrafter::observe(std::span<ObserveJob> jobs) {
  for (ObserveJob& job : jobs) {
    try {
      static_cast<ChainDraft&>(*job.draft).observe_text(job.committed);
    } catch (...) {
      job.error = std::current_exception();
    }
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    std::vector<ObserveJob> told;
    std::vector<ObserveJob*> of;
    for (ObserveJob& job : jobs) {
      auto& chain = static_cast<ChainDraft&>(*job.draft);
      if (job.error || chain.stages_[i].get() != chain.network_) continue;
      told.push_back({chain.network_, job.committed, job.features});
      of.push_back(&job);
    }
    if (told.empty()) continue;
    const auto take_back = [](const ObserveJob& job) {
      static_cast<ChainDraft&>(*job.draft).take_back(job.committed.size());
    };
    try {
      stages_[i]->observe(told);
    } catch (...) {
      for (const ObserveJob* const job : of) take_back(*job);
      throw;
    }
    for (std::size_t k = 0; k < told.size(); ++k) {
      if (!told[k].error) continue;
      of[k]->error = told[k].error;
      take_back(*of[k]);
    }
  }
}

}  // namespace draftproof
