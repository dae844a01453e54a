// SPDX-License-Identifier: MIT
#include "ref/decoding/scheduler.h"

#include <algorithm>
#include <utility>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/base/stopwatch.h"
#include "ref/models/memory.h"

namespace draftproof {
namespace {

/// Does the jobs of drafts that share a drafter in one call, and the others one by one.
template <class Job>
void do_jobs(std::span<Job* const> jobs, std::span<Drafter* const> drafters, void (Drafter::*together)(std::span<Job>),
             void (*alone)(Job&)) {
  std::vector<bool> done(jobs.size());
  for (std::size_t first = 0; first < jobs.size(); ++first) {
    if (done[first]) continue;
    if (drafters[first] == nullptr) {
      alone(*jobs[first]);
      continue;
    }
    std::vector<Job> group;
    std::vector<std::size_t> places;
    for (std::size_t i = first; i < jobs.size(); ++i) {
      if (drafters[i] != drafters[first]) continue;
      done[i] = true;
      group.push_back(*jobs[i]);
      places.push_back(i);
    }
    std::exception_ptr of_all;
    try {
      (drafters[first]->*together)(group);
    } catch (...) {
      of_all = std::current_exception();
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      *jobs[places[i]] = group[i];
      if (!group[i].error) jobs[places[i]]->error = of_all;
    }
  }
}

/// The positions that the caches of a sequence hold after its next pass.
int positions_after_next_pass(const Sequence& sequence) {
  return std::min(sequence.capacity(), sequence.positions() + (sequence.reading() ? 0 : sequence.rows_next()));
}

}  // namespace

void Scheduler::add(Sequence& sequence, const CacheCost& cost) {
  REQUIRE(&sequence.with().target == &target_, "a scheduler runs the target of its sequences");
  if (const std::uint64_t max = cost.of(sequence.capacity()); max > limits_.cache_bytes) {
    throw Error("the caches of a text of " + std::to_string(sequence.capacity()) + " positions need " +
                shown_bytes(max) + ", and all caches together may have " + shown_bytes(limits_.cache_bytes) +
                "; ask for fewer new tokens or allow more memory for caches");
  }
  waiting_.push_back({&sequence, cost});
}

void Scheduler::remove(Sequence& sequence) {
  REQUIRE(parts_.empty(), "no sequence is removed during a pass");
  const auto is_it = [&](const Entry& entry) { return entry.sequence == &sequence; };
  std::erase_if(running_, is_it);
  std::erase_if(waiting_, is_it);
}

void Scheduler::preempt(Sequence& sequence) {
  REQUIRE(parts_.empty(), "no sequence is preempted during a pass");
  const auto entry = std::ranges::find(running_, &sequence, &Entry::sequence);
  if (entry != running_.end()) preempt(entry);
}

void Scheduler::preempt(std::deque<Entry>::iterator entry) {
  entry->sequence->preempt();
  waiting_.push_front(*entry);
  running_.erase(entry);
  ++counts_.preemptions;
}

std::uint64_t Scheduler::bytes_after_next_pass() const {
  std::uint64_t bytes = 0;
  for (const Entry& entry : running_) bytes += entry.cost.of(positions_after_next_pass(*entry.sequence));
  return bytes;
}

bool Scheduler::fits(const Entry& entry) const {
  if (running() >= limits_.running_max) return false;
  const std::uint64_t taken = bytes_after_next_pass();
  const std::uint64_t more = entry.cost.of(positions_after_next_pass(*entry.sequence));
  return taken <= limits_.cache_bytes && more <= limits_.cache_bytes - taken;
}

void Scheduler::make_room() {
  while (running() > 1 && bytes_after_next_pass() > limits_.cache_bytes) {
    preempt(std::ranges::max_element(running_, {}, &Entry::admitted));
  }
}

void Scheduler::admit() {
  while (!waiting_.empty() && fits(waiting_.front())) {
    Entry entry = waiting_.front();
    waiting_.pop_front();
    entry.admitted = ++admissions_;
    running_.push_back(entry);
    if (prefixes_ == nullptr) continue;
    const int before = entry.sequence->cache().length();
    entry.sequence->reuse(*prefixes_);
    counts_.reused += entry.sequence->cache().length() - before;
  }
}

bool Scheduler::step() {
  drop_finished();
  make_room();
  admit();
  if (running_.empty()) return false;
  limit_drafts();
  try {
    gather();
    propose();
    forward();
    finish_parts();
  } catch (...) {  // what goes wrong outside of every sequence (no memory) is the failure of all
    if (parts_.empty()) throw;
    for (Part& part : parts_) {
      if (part.alive) part.sequence->fail(std::current_exception());
    }
  }
  parts_.clear();
  drop_finished();
  return true;
}

void Scheduler::drop_finished() {
  std::erase_if(running_,
                [](const Entry& entry) { return entry.sequence->finished() || entry.sequence->error() != nullptr; });
}

int Scheduler::decoding() const {
  return static_cast<int>(
      std::ranges::count_if(running_, [](const Entry& entry) { return !entry.sequence->reading(); }));
}

/// Limits the draft tokens of the next rounds where load decides how many there are.
void Scheduler::limit_drafts() {
  if (lengths_ == nullptr) return;
  std::vector<Sequence*> limited;
  std::vector<DraftLengths::Text*> texts;
  int other_rows = 0;
  for (const Entry& entry : running_) {
    Sequence& sequence = *entry.sequence;
    if (sequence.reading()) continue;
    if (sequence.is_limited()) {
      limited.push_back(&sequence);
      texts.push_back(&sequence.shown_by_draft());
    } else {
      other_rows += sequence.rows_next();
    }
  }
  const std::vector<int>& draft_tokens = lengths_->choose(texts, other_rows);
  for (std::size_t i = 0; i < limited.size(); ++i) limited[i]->limit_draft(draft_tokens[i]);
}

/// Chooses the sequences of the pass and lets them begin it.
void Scheduler::gather() {
  int rows_left = limits_.rows_per_pass;
  int reading_left = decoding() > 0 ? limits_.reading_rows : rows_left;
  std::deque<Entry> taken;
  std::deque<Entry> left;
  for (const Entry& entry : running_) {
    Sequence& sequence = *entry.sequence;
    const int wanted = sequence.rows_next();
    const bool reading = sequence.reading();
    const int rows = reading ? std::min({wanted, rows_left, reading_left}) : wanted;
    const bool room = reading ? rows > 0 : wanted <= rows_left || parts_.empty();
    (room ? taken : left).push_back(entry);
    if (!room) continue;
    parts_.emplace_back().sequence = &sequence;
    parts_.back().reading = reading;
    if (sequence.prepare(rows, scratch_)) {
      rows_left -= rows;
      if (reading) reading_left -= rows;
    } else {
      parts_.pop_back();
    }
  }
  running_ = std::move(left);
  running_.insert(running_.end(), taken.begin(), taken.end());
}

/// Lets the drafts propose.
void Scheduler::propose() {
  std::vector<ProposeJob*> jobs;
  std::vector<Drafter*> drafters;
  proposals_ = {};
  for (Part& part : parts_) {
    part.propose = part.sequence->wanted();
    if (!part.propose) continue;
    jobs.push_back(&*part.propose);
    drafters.push_back(part.sequence->with().drafter);
    if (part.sequence->is_limited()) proposals_.add(part.propose->limit);
  }
  proposal_seconds_ = 0;
  {
    const Stopwatch watch(proposal_seconds_);
    do_jobs<ProposeJob>(jobs, drafters, &Drafter::propose, propose_alone);
  }
  late_seconds_ = 0;
  for (const ProposeJob* const job : jobs) late_seconds_ = std::max(late_seconds_, job->late_seconds);
}

void Scheduler::forward() {
  segments_.clear();
  std::vector<Part*> in_pass;
  int rows = 0;
  for (Part& part : parts_) {
    const auto segment = part.sequence->plan(part.propose ? &*part.propose : nullptr, proposal_seconds_);
    part.alive = segment.has_value();
    if (!segment) continue;
    segments_.push_back(*segment);
    in_pass.push_back(&part);
    rows += segment->rows();
  }
  if (segments_.empty()) return;
  ++counts_.passes;
  counts_.rows += rows;
  if (segments_.size() > 1) ++counts_.shared;
  double seconds = 0;
  try {
    const Stopwatch watch(seconds);
    target_.forward(segments_, outputs_);
  } catch (...) {
    for (Part* const part : in_pass) {
      part->sequence->fail(std::current_exception());
      part->alive = false;
    }
    return;
  }
  if (lengths_ != nullptr && std::ranges::none_of(parts_, &Part::reading)) {
    lengths_->learn_pass(rows, seconds, proposals_, proposal_seconds_ - late_seconds_, late_seconds_);
  }
  for (std::size_t i = 0; i < in_pass.size(); ++i) {
    Part& part = *in_pass[i];
    const auto observe = part.sequence->absorb(outputs_.segments[i], seconds, scratch_);
    part.alive = observe.has_value();
    if (observe) part.observe = *observe;
  }
}

/// Lets the drafts observe what was accepted, and the sequences keep it.
void Scheduler::finish_parts() {
  double seconds = 0;
  {
    const Stopwatch watch(seconds);
    std::vector<ObserveJob*> jobs;
    std::vector<Drafter*> drafters;
    for (Part& part : parts_) {
      if (!part.alive) continue;
      jobs.push_back(&part.observe);
      drafters.push_back(part.sequence->with().drafter);
    }
    do_jobs<ObserveJob>(jobs, drafters, &Drafter::observe, observe_alone);
  }
  for (Part& part : parts_) {
    if (!part.alive) continue;
    part.alive = false;
    Sequence& sequence = *part.sequence;
    sequence.commit(part.observe, seconds, scratch_);
    if (lengths_ != nullptr && sequence.is_limited() && !part.reading && !sequence.error()) {
      const Round& round = sequence.trace().rounds.back();
      const int drafted = round.proposal.size() - round.proposal.forced;
      lengths_->learn(sequence.shown_by_draft(), drafted, std::min(round.accepted, drafted));
    }
    const bool text_read = part.reading && !sequence.reading();
    if (prefixes_ == nullptr || sequence.error() || !(text_read || sequence.finished())) continue;
    try {
      sequence.publish(*prefixes_);
    } catch (...) {
      sequence.fail(std::current_exception());
    }
  }
}

void decode_alone(Sequence& sequence, const CacheCost& cost, PrefixCache* prefixes) {
  Scheduler scheduler(sequence.with().target, {}, prefixes);
  scheduler.add(sequence, cost);
  while (scheduler.step()) {
  }
  if (sequence.error()) std::rethrow_exception(sequence.error());
}

}  // namespace draftproof
