// SPDX-License-Identifier: MIT
#include "ref/drafts/chain.h"

#include <algorithm>

#include "ref/base/require.h"
#include "ref/base/stopwatch.h"

namespace draftproof {

ChainDraft::ChainDraft(std::vector<std::unique_ptr<Draft>> stages, std::optional<Tuner> tuner, Costs costs,
                       std::size_t own)
    : stages_(std::move(stages)), tuner_(std::move(tuner)), costs_(costs), own_(own), times_(stages_.size()) {
  for (const auto& stage : stages_) {
    if (auto* const text = dynamic_cast<TextDraft*>(stage.get())) text_.push_back(text);
    if (stage->needs_no_snapshot()) continue;
    REQUIRE(network_ == nullptr, "a chain has at most one stage with a cache");
    network_ = stage.get();
  }
}

int ChainDraft::draft_max() const {
  int max = 0;
  for (const auto& stage : stages_) max = std::max(max, stage->draft_max());
  return max;
}

std::span<const int> ChainDraft::taps() const {
  return network_ != nullptr ? network_->taps() : std::span<const int>();
}

Cache* ChainDraft::context() {
  if (network_ == nullptr) return nullptr;
  read();
  return network_->context();
}

void ChainDraft::make_room(const ContextShift& shift) {
  if (network_ == nullptr) return;
  read();
  network_->make_room(shift);
}

void ChainDraft::use_target_cache(Cache& cache) {
  for (const auto& stage : stages_) stage->use_target_cache(cache);
}

bool ChainDraft::room_for(std::span<const float> features) const noexcept {
  const std::size_t bytes = (unread_features_.size() + features.size()) * sizeof(float);
  return bytes <= waiting_features_max || unread_features_.empty();
}

DraftTimes& ChainDraft::times_of(const Draft& stage) const {
  const auto place = std::ranges::find(stages_, &stage, &std::unique_ptr<Draft>::get) - stages_.begin();
  return times_[static_cast<std::size_t>(place)];
}

double& ChainDraft::observing(const Draft& stage) const {
  DraftTimes& times = times_of(stage);
  return in_prompt_ ? times.begin : times.accept;
}

ObserveJob ChainDraft::unread() const {
  const auto max = static_cast<std::size_t>(std::max(max_chunk, 1 + network_->draft_max()));
  const std::size_t rows = std::min(unread_tokens_.size(), max);
  const std::size_t width = unread_features_.size() / unread_tokens_.size();
  return {network_, std::span(unread_tokens_).first(rows), std::span(unread_features_).first(rows * width)};
}

void ChainDraft::was_read(const ObserveJob& job) const {
  const auto drop = [](auto& list, std::size_t count) {
    list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
  };
  const std::size_t rows = job.committed.size();
  const std::size_t floats = job.features.size();
  drop(unread_tokens_, rows);
  drop(unread_features_, floats);
}

void ChainDraft::read() const {
  if (!has_unread()) return;
  const Stopwatch watch(observing(*network_));
  try {
    while (has_unread()) {
      const ObserveJob job = unread();
      network_->observe(job.committed, job.features);
      was_read(job);
    }
  } catch (...) {
    ++times_of(*network_).failed;
    throw;
  }
}

void ChainDraft::take_back(std::size_t committed) {
  for (TextDraft* const text : text_) text->take_back(committed);
  unread_tokens_ = {};
  unread_features_ = {};
}

/// Lets the stages that read the text only observe it, and keeps it for the other.
void ChainDraft::keep(std::span<const Token> committed, std::span<const float> features) {
  REQUIRE(!in_prompt_ || committed.size() <= max_chunk, "a prompt is observed in chunks");
  const auto reserve = [](auto& list, std::size_t more) {
    if (list.capacity() - list.size() < more) list.reserve(std::max(2 * list.size(), list.size() + more));
  };
  if (network_ != nullptr) {
    reserve(unread_tokens_, committed.size());
    reserve(unread_features_, features.size());
  }
  std::size_t done = 0;
  try {
    for (; done < text_.size(); ++done) {
      const Stopwatch watch(observing(*text_[done]));
      text_[done]->observe(committed, {});
    }
  } catch (...) {
    ++times_of(*text_[done]).failed;
    for (std::size_t i = 0; i < done; ++i) text_[i]->take_back(committed.size());
    throw;
  }
  kept_last_ = committed.size();
  if (network_ != nullptr) {
    unread_tokens_.insert(unread_tokens_.end(), committed.begin(), committed.end());
    unread_features_.insert(unread_features_.end(), features.begin(), features.end());
  }
  if (!proposed_) return;
  if (tuner_) {
    const int accepted = std::min(static_cast<int>(committed.size()) - 1, proposed_->drafted);
    tuner_->learn(proposed_->asked, proposed_->drafted, accepted, proposed_->seconds);
  }
  proposed_.reset();
}

void ChainDraft::took(const RoundSeconds& seconds) {
  if (proposed_) proposed_->seconds = seconds;
}

void ChainDraft::observe(std::span<const Token> committed, std::span<const float> features) {
  if (!room_for(features)) read();
  keep(committed, features);
  if (!in_prompt_) return;
  try {
    read();
  } catch (...) {
    take_back(committed.size());
    throw;
  }
}

int ChainDraft::asked_of(std::size_t stage, int limit) const {
  const int max = std::min(limit, stages_[stage]->draft_max());
  return tuner_ && max > 0 ? tuner_->length(static_cast<int>(stage), max) : max;
}

void ChainDraft::note(const ProposalBuilder& builder) {
  proposed_->asked = builder.proposal().asked;
  proposed_->drafted = builder.size();
}

void ChainDraft::begin_proposal() {
  proposed_ = Proposed();  // clang does not take emplace(), as the members of Proposed have initializers in a class
  begin_rounds();
}

void ChainDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  begin_proposal();
  for (std::size_t i = 0; i < stages_.size(); ++i) ask(i, anchor, limit, builder);
  note(builder);
}

void ChainDraft::ask(std::size_t stage, Token anchor, int limit, ProposalBuilder& builder) {
  if (builder.size() > 0) return;
  const int asked = asked_of(stage, limit);
  builder.ask(asked);
  if (asked == 0) return;
  if (stages_[stage].get() == network_) read();
  try {
    const Stopwatch watch(times_[stage].draft);
    stages_[stage]->propose(anchor, asked, builder);
  } catch (...) {
    ++times_[stage].failed;
    throw;
  }
  times_[stage].count(builder.size());
}

void ChainDraft::forget() {
  unread_tokens_ = {};
  unread_features_ = {};
  proposed_.reset();
  in_prompt_ = true;
  for (const auto& stage : stages_) stage->forget();
}

void ChainDraft::skip(std::span<const Token> prefix) {
  for (const auto& stage : stages_) stage->skip(prefix);
}

Fingerprint ChainDraft::digest() const {
  read();
  Digest digest;
  for (const auto& stage : stages_) {
    const Fingerprint one = stage->digest();
    digest.add(one.high);
    digest.add(one.low);
  }
  return digest.value();
}

int ChainDraft::reach() const {
  int nearest = Draft::reach();
  for (const auto& stage : stages_) nearest = std::min(nearest, stage->reach());
  return nearest;
}

std::vector<DraftPositions> ChainDraft::positions() const {
  std::vector<DraftPositions> list;
  for (const auto& stage : stages_) {
    for (DraftPositions of_stage : stage->positions()) {
      if (stage.get() == network_) of_stage.unread += static_cast<int>(unread_tokens_.size());
      list.push_back(of_stage);
    }
  }
  return list;
}

std::vector<std::unique_ptr<Draft>> ChainDrafter::open_stages(int capacity, int draft_max,
                                                              std::vector<std::unique_ptr<Draft>> own) {
  for (const auto& stage : stages_) own.push_back(stage->open(capacity, draft_max));
  return own;
}

std::unique_ptr<Draft> ChainDrafter::open(int capacity, int draft_max, std::vector<std::unique_ptr<Draft>> own) {
  const std::size_t first = own.size();
  return std::make_unique<ChainDraft>(open_stages(capacity, draft_max, std::move(own)), std::nullopt,
                                      ChainDraft::Costs::measured, first);
}

std::unique_ptr<Draft> ChainDrafter::open_tuned(int capacity, int draft_max, std::vector<std::unique_ptr<Draft>> own) {
  const std::size_t first = own.size();
  std::vector<std::unique_ptr<Draft>> stages = open_stages(capacity, draft_max, std::move(own));
  std::vector<ExpectedStage> expected;
  for (const auto& stage : stages) {
    expected.push_back({std::min(draft_max, stage->draft_max()), stage->work()});
  }
  return std::make_unique<ChainDraft>(std::move(stages), Tuner(expected_costs(expected, draft_max)),
                                      ChainDraft::Costs::measured, first);
}

template <class Job>
double ChainDrafter::read(std::span<Job* const> jobs) {
  const bool late = std::ranges::any_of(
      jobs, [](const Job* job) { return !job->error && static_cast<const ChainDraft&>(*job->draft).is_late(); });
  double late_seconds = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    for (;;) {
      std::vector<ObserveJob> told;
      std::vector<Job*> of;  // the job that each of `told` is for
      for (Job* const job : jobs) {
        const auto& chain = static_cast<ChainDraft&>(*job->draft);
        if (job->error || !chain.has_unread() || chain.stages_[chain.own_ + i].get() != chain.network_) continue;
        told.push_back(chain.unread());
        of.push_back(job);
      }
      if (told.empty()) break;
      double seconds = 0;
      {
        const Stopwatch watch(seconds);
        stages_[i]->observe(told);
      }
      if (late) late_seconds += seconds;
      for (std::size_t k = 0; k < told.size(); ++k) {
        const auto& chain = static_cast<const ChainDraft&>(*of[k]->draft);
        chain.observing(*chain.network_) += seconds;
        of[k]->error = told[k].error;
        if (told[k].error) ++chain.times_of(*chain.network_).failed;
        else chain.was_read(told[k]);
      }
    }
  }
  return late_seconds;
}

void ChainDrafter::propose(std::span<ProposeJob> jobs) {
  std::vector<ProposeJob> asked;
  std::vector<ProposeJob*> of;  // the job that each of `asked` is for
  for (ProposeJob& job : jobs) {
    auto& chain = static_cast<ChainDraft&>(*job.draft);
    chain.begin_proposal();
    try {
      for (std::size_t i = 0; i < chain.own_; ++i) chain.ask(i, job.anchor, job.limit, *job.builder);
    } catch (...) {
      job.error = std::current_exception();
    }
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    std::vector<ProposeJob*> wanting;
    std::vector<ProposeJob*> to_read;
    for (ProposeJob& job : jobs) {
      auto& chain = static_cast<ChainDraft&>(*job.draft);
      if (job.error || job.builder->size() > 0) continue;
      const std::size_t stage = chain.own_ + i;
      job.builder->ask(chain.asked_of(stage, job.limit));
      if (job.builder->proposal().asked.back() == 0) continue;
      wanting.push_back(&job);
      if (chain.stages_[stage].get() == chain.network_) to_read.push_back(&job);
    }
    const double late_seconds = read<ProposeJob>(to_read);
    for (ProposeJob* const job : wanting) job->late_seconds += late_seconds;
    asked.clear();
    of.clear();
    for (ProposeJob* const job : wanting) {
      if (job->error) continue;
      auto& chain = static_cast<ChainDraft&>(*job->draft);
      const int draft_tokens = job->builder->proposal().asked.back();
      asked.push_back({chain.stages_[chain.own_ + i].get(), job->anchor, draft_tokens, job->builder});
      of.push_back(job);
    }
    if (asked.empty()) continue;
    double seconds = 0;
    {
      const Stopwatch watch(seconds);
      stages_[i]->propose(asked);
    }
    for (std::size_t k = 0; k < asked.size(); ++k) {
      auto& chain = static_cast<ChainDraft&>(*of[k]->draft);
      DraftTimes& times = chain.times_[chain.own_ + i];
      times.draft += seconds;
      of[k]->error = asked[k].error;
      if (asked[k].error) ++times.failed;
      else times.count(of[k]->builder->size());
    }
  }
  for (const ProposeJob& job : jobs) {
    if (!job.error) static_cast<ChainDraft&>(*job.draft).note(*job.builder);
  }
}

void ChainDrafter::observe(std::span<ObserveJob> jobs) {
  std::vector<ObserveJob*> full;
  for (ObserveJob& job : jobs) {
    if (!static_cast<ChainDraft&>(*job.draft).room_for(job.features)) full.push_back(&job);
  }
  read<ObserveJob>(full);
  std::vector<ObserveJob*> of_prompts;
  for (ObserveJob& job : jobs) {
    if (job.error) continue;
    auto& chain = static_cast<ChainDraft&>(*job.draft);
    try {
      chain.keep(job.committed, job.features);
      if (chain.in_prompt_) of_prompts.push_back(&job);
    } catch (...) {
      job.error = std::current_exception();
    }
  }
  try {
    read<ObserveJob>(of_prompts);
  } catch (...) {  // the failure of these jobs; what others keep is kept
    for (ObserveJob* const job : of_prompts) job->error = std::current_exception();
  }
  for (ObserveJob* const job : of_prompts) {
    if (job->error) static_cast<ChainDraft&>(*job->draft).take_back(job->committed.size());
  }
}

}  // namespace draftproof
