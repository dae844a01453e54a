// SPDX-License-Identifier: MIT
#include "tools/engine_subject.h"

#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/models/memory.h"
#include "zoo/joint_run.h"

namespace draftproof {
namespace {

/// Bytes of the distributions q that draft tokens were drawn from. At temperatures above 0 they are most of a trace.
std::uint64_t bytes_of_distributions(const Trace& trace) {
  std::uint64_t bytes = 0;
  for (const Round& round : trace.rounds) {
    for (const Distribution& q : round.proposal.drawn_from) bytes += q.bytes();
  }
  return bytes;
}

/// Throws Error when memory does not suffice for `runs` more traces like this one. Verification adds a distribution p
/// for every q.
void refuse_to_keep(std::size_t runs, const Trace& like) {
  const std::uint64_t need = 2 * runs * bytes_of_distributions(like);
  if (const std::uint64_t available = memory_available(); need > available) {
    throw Error("the distributions of " + std::to_string(runs) + " more runs need " + shown_bytes(need) +
                " of memory, and " + shown_bytes(available) +
                " are available; give --top-k, a smaller --max-new-tokens or a smaller --draft-max");
  }
}

/// Of the prefix cache of a joint run.
constexpr std::size_t joint_prefix_bytes = std::size_t{1} << 30;

}  // namespace

Engine& EngineSubject::engine(const Variation& variation) {
  set_threads(variation.threads);
  with_workers([] {});  // leaves as many as can be started
  if (threads() < variation.threads) {
    throw Error("the system gives " + std::to_string(threads()) + " of the " + std::to_string(variation.threads) +
                " threads of a run to check; end other processes, or raise the limit (ulimit -u)");
  }
  if (!engine_ || loaded_ != variation.kernels) {
    engine_.reset();
    engine_ = std::make_unique<Engine>(files_, with_kernels(kernels_by_name(variation.kernels), like_));
    loaded_ = variation.kernels;
  }
  return *engine_;
}

Trace EngineSubject::run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                                       const OnRound& on_round) {
  RoundCallback watch{{}, rows_};
  if (on_round) watch.on_round = [&](const Trace& trace) { return on_round(trace) ? Next::go_on : Next::cancel; };
  Trace trace = engine(variation).decode({.request = request,
                                          .execution = variation,
                                          .draft = variation.draft,
                                          .rule = *variation.rule,
                                          .random = random,
                                          .recording = Recording::digests,
                                          .watch = std::move(watch),
                                          .cancelled = cancelled_});
  if (to_keep_ > 0) {
    refuse_to_keep(--to_keep_, trace);
    kept_();
  }
  return trace;
}

std::optional<JointRun> EngineSubject::run_together(std::span<const Companion> companions, const JointPlan& plan) {
  const Variation& common = companions.front().variation;
  Engine& engine = this->engine(common);
  std::vector<Engine::Opened> opened;
  std::vector<Scheduled> scheduled;
  for (const Companion& one : companions) {
    opened.push_back(engine.open({.request = one.request,
                                  .execution = one.variation,
                                  .draft = one.variation.draft,
                                  .rule = *one.variation.rule,
                                  .random = *one.random,
                                  .recording = Recording::digests}));
    scheduled.push_back({opened.back().sequence.get(), opened.back().cost, one.timetable});
  }
  PrefixCache prefixes(joint_prefix_bytes);
  Scheduler scheduler(engine.target(common), {.rows_per_pass = plan.rows_per_pass},
                      plan.prefix_cache ? &prefixes : nullptr);
  JointRun run;
  with_workers([&] { run = run_jointly(scheduler, scheduled); });
  for (Trace& trace : run.traces) engine.sign(trace);
  return run;
}

std::string EngineSubject::numerics(const Variation& variation) {
  const auto [place, fresh] = numerics_.try_emplace(variation.kernels);
  if (fresh) place->second = numerics_of(with_kernels(kernels_by_name(variation.kernels), like_));
  return place->second;
}

}  // namespace draftproof
