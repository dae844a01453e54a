// SPDX-License-Identifier: MIT
#include "ref/drafts/short_context.h"

#include <algorithm>
#include <limits>

#include "ref/base/require.h"

namespace draftproof {

ShortContextDraft::ShortContextDraft(Drafter& drafter, int reach, int capacity, int draft_max)
    : drafter_(drafter),
      reach_(reach),
      capacity_(std::min(capacity, reach)),
      draft_(drafter.open(capacity_, draft_max)),
      draft_max_(draft_->draft_max()),
      work_(draft_->work()),
      taps_(draft_->taps()) {
  REQUIRE(draft_->context() != nullptr, "a draft with a short context keeps a cache of the text");
}

int ShortContextDraft::room() const {
  if (!draft_) return 0;
  const DraftPositions at = draft_->positions().front();
  return reach() - at.held - at.unread;
}

int ShortContextDraft::draft_tokens_max(int limit) const { return std::min(limit, room() - 1); }

void ShortContextDraft::observe(std::span<const Token> committed, std::span<const float> features) {
  if (std::ssize(committed) > room()) draft_.reset();
  else draft_->observe(committed, features);
}

void ShortContextDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  const int max = draft_tokens_max(limit);
  if (max > 0) draft_->propose(anchor, max, builder);
}

void ShortContextDraft::forget() {
  if (draft_) {
    draft_->forget();
    return;
  }
  draft_ = drafter_.open(capacity_, draft_max_);
  if (target_ != nullptr) draft_->use_target_cache(*target_);
}

void ShortContextDraft::use_target_cache(Cache& cache) {
  target_ = &cache;
  if (draft_) draft_->use_target_cache(cache);
}

void ShortContextDraft::skip(std::span<const Token> prefix) {
  if (!draft_) return;
  if (draft_->context()->length() == std::ssize(prefix)) draft_->skip(prefix);
  else draft_.reset();
}

void ShortContextDraft::make_room(const ContextShift& shift) {
  if (!draft_) return;
  const Cache& cache = *draft_->context();
  const bool full = cache.length() >= shift.context;
  if (full && !cache.discard_error(cache.length(), shift.keep, shift.discard).empty()) draft_.reset();
  else draft_->make_room(shift);
}

std::vector<DraftPositions> ShortContextDraft::positions() const {
  return draft_ ? draft_->positions() : std::vector<DraftPositions>(1);
}

std::unique_ptr<Draft> ShortContextDrafter::open(int capacity, int draft_max) {
  return std::make_unique<ShortContextDraft>(*drafter_, reach_, capacity, draft_max);
}

void ShortContextDrafter::propose(std::span<ProposeJob> jobs) {
  std::vector<ProposeJob> asked;
  std::vector<ProposeJob*> of;  // the job that each of `asked` is for
  for (ProposeJob& job : jobs) {
    auto& draft = static_cast<ShortContextDraft&>(*job.draft);
    const int max = draft.draft_tokens_max(job.limit);
    if (max <= 0) continue;
    asked.push_back({draft.draft_.get(), job.anchor, max, job.builder});
    of.push_back(&job);
  }
  if (asked.empty()) return;
  drafter_->propose(asked);
  for (std::size_t i = 0; i < asked.size(); ++i) of[i]->error = asked[i].error;
}

void ShortContextDrafter::observe(std::span<ObserveJob> jobs) {
  std::vector<ObserveJob> told;
  std::vector<ObserveJob*> of;  // the job that each of `told` is for
  std::vector<ShortContextDraft*> outgrown;
  for (ObserveJob& job : jobs) {
    auto& draft = static_cast<ShortContextDraft&>(*job.draft);
    if (std::ssize(job.committed) > draft.room()) {
      outgrown.push_back(&draft);
      continue;
    }
    told.push_back({draft.draft_.get(), job.committed, job.features});
    of.push_back(&job);
  }
  if (!told.empty()) drafter_->observe(told);
  for (std::size_t i = 0; i < told.size(); ++i) of[i]->error = told[i].error;
  for (ShortContextDraft* const draft : outgrown) draft->draft_.reset();
}

std::unique_ptr<Drafter> for_texts_of_any_length(std::unique_ptr<Drafter> drafter, int context) {
  const int reach = std::min(drafter->reach(), context);
  if (reach == std::numeric_limits<int>::max()) return drafter;
  return std::make_unique<ShortContextDrafter>(std::move(drafter), reach);
}

}  // namespace draftproof
