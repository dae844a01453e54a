// SPDX-License-Identifier: MIT
#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "ref/base/error.h"

namespace draftproof::serve {
namespace {

/// A sentence, or as much as can be said where there is no memory for it.
std::string told(const char* sentence) noexcept {
  try {
    return sentence;
  } catch (const std::bad_alloc&) {
    return "out of memory";  // is in the string itself
  }
}

constexpr const char* no_memory = "there is not enough memory for the request now";

}  // namespace

/// A job that was taken.
struct Service::Arrival {
  Job job;
  std::shared_ptr<TokenStream> stream;
  Clock::time_point when;
};

/// A choice in the scheduler, with what it owns.
struct Service::Running {
  Running(std::shared_ptr<Arrival> from, int choice) : arrival(std::move(from)), choice(choice), random(seed()) {}
  std::uint64_t seed() const { return arrival->job.seed; }

  std::shared_ptr<Arrival> arrival;
  int choice;
  PhiloxSource random;
  std::unique_ptr<StopAtStrings> stop;
  Engine::Opened opened;  // uses the members above, so it goes first
  bool counted = false;   // its prompt, and the time to its first token
  Clock::time_point last_round;
};

Service::Service(const Tokenizer* tokenizer, Metrics& metrics, Wakeup& wakeup, ServiceOptions options)
    : tokenizer_(tokenizer),
      metrics_(metrics),
      wakeup_(wakeup),
      options_(std::move(options)),
      lengths_(options_.costs ? std::optional<DraftLengths>(*options_.costs) : std::nullopt) {}

Service::~Service() = default;

Service::Submission Service::submit(Job job) {
  const std::lock_guard lock(mutex_);
  if (draining()) return {Refusal::draining, nullptr};
  const int choices = static_cast<int>(job.choices.size());
  if (choices > options_.limits.running_max + options_.waiting_max) return {Refusal::never, nullptr};
  if (choices_ + choices > options_.limits.running_max + options_.waiting_max) {
    metrics_.count_answer("full");
    return {Refusal::full, nullptr};
  }
  auto arrival = std::make_shared<Arrival>();
  arrival->job = std::move(job);
  arrival->stream = std::make_shared<TokenStream>(choices);
  arrival->when = options_.now();
  arrivals_.push_back(arrival);
  choices_ += choices;
  wakeup_.notify();
  return {Refusal::none, arrival->stream};
}

void Service::drain() {
  const std::lock_guard lock(mutex_);
  if (draining()) return;
  drain_until_ = options_.now() +
                 std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.drain_seconds));
  draining_.store(true);
  wakeup_.notify();
}

void Service::load(Engine& engine, PrefixCache& prefixes) {
  engine_ = &engine;
  scheduler_.emplace(engine.target(options_.execution), options_.limits, &prefixes, lengths_ ? &*lengths_ : nullptr);
  loaded_.store(true);
  metrics_.count_load();
}

void Service::unload() {
  scheduler_.reset();
  engine_ = nullptr;
  loaded_.store(false);
  metrics_.count_drop();
}

bool Service::step(bool hold) {
  try {
    if (!hold) {
      for (const auto& arrival : taken_arrivals()) {
        for (int choice = 0; choice < static_cast<int>(arrival->job.choices.size()); ++choice) begin(arrival, choice);
      }
    }
    if (!running_.empty()) pass();
  } catch (const std::bad_alloc&) {
    end_all(no_memory);
  }
  return !running_.empty();
}

bool Service::finished() const {
  const std::lock_guard lock(mutex_);
  return draining() && arrivals_.empty() && running_.empty();
}

std::vector<std::shared_ptr<Service::Arrival>> Service::taken_arrivals() {
  const std::lock_guard lock(mutex_);
  return std::exchange(arrivals_, {});
}

std::optional<Service::Clock::time_point> Service::waiting_since() {
  if (draining() && options_.now() > drain_until_) fail_waiting("the server is shutting down");
  const std::lock_guard lock(mutex_);
  std::erase_if(arrivals_, [&](const std::shared_ptr<Arrival>& arrival) {
    if (!arrival->stream->cancelled()) return false;
    end_waiting(*arrival, Finish::cancelled, "");
    return true;
  });
  return arrivals_.empty() ? std::nullopt : std::optional(arrivals_.front()->when);
}

void Service::fail_waiting(const char* why) {
  for (const auto& arrival : taken_arrivals()) end_waiting(*arrival, Finish::unfinished, why);
}

/// Ends all choices of a job that was not taken.
void Service::end_waiting(Arrival& arrival, Finish finish, const char* why) noexcept {
  for (int choice = 0; choice < static_cast<int>(arrival.job.choices.size()); ++choice) {
    tell_end(arrival, choice, {finish, 0, false, told(why)});
  }
}

/// nullptr: none is asked for.
std::shared_ptr<SuffixPool> Service::pool_of(int tenant) {
  if (options_.pool_tokens == 0) return nullptr;
  std::shared_ptr<SuffixPool>& pool = pools_[tenant];
  if (pool == nullptr) pool = std::make_shared<SuffixPool>(options_.pool_tokens);
  return pool;
}

/// Empty for the first tenant, which is often the only one, and without a salt.
std::string Service::prefix_owner_of(const Job& job) const {
  const int tenant = options_.share_prefixes ? 0 : job.tenant;
  return tenant == 0 && job.cache_salt.empty() ? "" : fmt::format("{}/{}", tenant, job.cache_salt);
}

/// The prompt was read.
void Service::tell_prompt(Running& running, const Trace& so_far) {
  running.counted = true;
  metrics_.count_prompt(static_cast<int>(so_far.request.prompt.size()), so_far.reused);
  if (so_far.request.prompt_logprobs) running.arrival->stream->add_prompt(running.choice, so_far.prompt_logprobs);
}

/// Hands a choice to the scheduler, or ends it with why that cannot be.
void Service::begin(const std::shared_ptr<Arrival>& arrival, int choice) {
  try {
    running_.push_back(std::make_unique<Running>(arrival, choice));
  } catch (const std::bad_alloc&) {
    tell_end(*arrival, choice, {Finish::unfinished, 0, false, told(no_memory)});
    return;
  }
  auto last = std::prev(running_.end());
  Running& running = **last;
  try {
    const Job& job = arrival->job;
    if (!job.stops.strings().empty()) running.stop = std::make_unique<StopAtStrings>(*tokenizer_, job.stops, job.shown);
    const auto on_round = [this, &running](const Trace& so_far) {
      const Round& round = so_far.rounds.back();
      const auto now = options_.now();
      const auto since = [&](Clock::time_point then) { return std::chrono::duration<double>(now - then).count(); };
      if (!running.counted) {
        tell_prompt(running, so_far);
        metrics_.add_first_token(since(running.arrival->when));
        metrics_.add_tokens(static_cast<int>(round.emitted.size()), -1);
      } else {
        metrics_.add_tokens(static_cast<int>(round.emitted.size()), since(running.last_round));
      }
      running.last_round = now;
      running.arrival->stream->add(
          running.choice, {round.emitted, round.proposal.size(), round.accepted, round.logprobs, round.top_logprobs,
                           from_prediction(so_far, round), is_beyond_draft(so_far, round)});
      return Next::go_on;
    };
    running.opened = engine_->open({.request = job.choices[static_cast<std::size_t>(choice)],
                                    .execution = options_.execution,
                                    .draft = job.speculative ? options_.draft : "none",
                                    .prediction = job.speculative ? job.prediction : std::vector<Token>(),
                                    .pool = job.speculative ? pool_of(job.tenant) : nullptr,
                                    .random = running.random,
                                    .prefix_owner = prefix_owner_of(job),
                                    .watch = {on_round},
                                    .limited_by_load = lengths_.has_value(),
                                    .stop = running.stop.get()});
    scheduler_->add(*running.opened.sequence, running.opened.cost);
    arrival->stream->start();
  } catch (const Error& wrong) {
    end(last, {Finish::unfinished, 0, true, told(wrong.what())});
  } catch (const std::bad_alloc&) {
    end(last, {Finish::unfinished, 0, false, told(no_memory)});
  } catch (const std::exception& wrong) {  // one request's failure is its own
    end(last, {Finish::unfinished, 0, false, told(wrong.what())});
  }
}

/// Runs one pass, and ends what it has finished and what was cancelled before it.
void Service::pass() {
  for (auto running = running_.begin(); running != running_.end();) {
    if (!(*running)->arrival->stream->cancelled()) {
      ++running;
      continue;
    }
    scheduler_->remove(*(*running)->opened.sequence);
    end(running, {Finish::cancelled, 0, false, ""});
  }
  try {
    scheduler_->step();
  } catch (const std::exception& wrong) {  // outside of any sequence: no memory
    end_all(wrong.what());
  }
  end_finished();
  metrics_.set_queue(scheduler_->running(), scheduler_->waiting(), scheduler_->counts());
  if (lengths_) metrics_.set_draft_speedup(lengths_->worth(std::max(1, scheduler_->running())).speedup());
  if (draining() && options_.now() > drain_until_) end_all("the server is shutting down");
}

/// Why an answer that ends now is decoded without draft tokens. Empty: it is not, or nobody wants any.
std::string Service::draft_remark(const Job& job) const {
  if (!lengths_ || !job.speculative) return "";
  const int together = std::max(1, scheduler_->running());
  const DraftLengths::Worth worth = lengths_->worth(together);
  if (worth.draft_tokens == 0 || worth.speedup() > 1) return "";
  return fmt::format("draft tokens do not pay now: with {} a round gives {:.2f} tokens in {:.2f} times the time{}",
                     worth.draft_tokens, worth.tokens, worth.times,
                     together == 1 ? "" : fmt::format(", beside {} other answers", together - 1));
}

/// The answer may serve later ones.
void Service::learn(int tenant, const Trace& answer) {
  if (const auto pool = pool_of(tenant)) pool->add(answer.request.prompt, answer.output);
  if (options_.on_answer) options_.on_answer(answer);
}

void Service::end_finished() {
  for (auto running = running_.begin(); running != running_.end();) {
    const Sequence& sequence = *(*running)->opened.sequence;
    std::string error;
    if (sequence.error()) {
      try {
        std::rethrow_exception(sequence.error());
      } catch (const std::exception& wrong) {
        error = told(wrong.what());
      }
    } else if (!sequence.finished()) {
      ++running;
      continue;
    }
    const std::string remark = draft_remark((*running)->arrival->job);
    scheduler_->remove(*(*running)->opened.sequence);
    if (error.empty() && !(*running)->counted) tell_prompt(**running, sequence.trace());  // no token was asked for
    if (error.empty()) learn((*running)->arrival->job.tenant, sequence.trace());
    end(running, {sequence.trace().finish, sequence.trace().reused, false, error, remark});
  }
}

/// Ends a choice and moves on to the next.
void Service::end(std::list<std::unique_ptr<Running>>::iterator& running, StreamEnd end) noexcept {
  const Running& one = **running;
  if (one.opened.sequence) {
    try {
      metrics_.add_rounds(one.opened.sequence->trace());
    } catch (const std::bad_alloc&) {  // they are not counted
    }
  }
  tell_end(*one.arrival, one.choice, std::move(end));
  running = running_.erase(running);
}

void Service::tell_end(Arrival& arrival, int choice, StreamEnd end) noexcept {
  try {
    metrics_.count_answer(end.refused ? "refused" : !end.error.empty() ? "failed" : name_of(end.finish));
  } catch (const std::bad_alloc&) {  // it is not counted
  }
  --choices_;
  arrival.stream->end(choice, std::move(end));
}

void Service::end_all(const char* why) {
  for (auto running = running_.begin(); running != running_.end();) {
    if ((*running)->opened.sequence) scheduler_->remove(*(*running)->opened.sequence);
    end(running, {Finish::cancelled, 0, false, told(why)});
  }
}

}  // namespace draftproof::serve
