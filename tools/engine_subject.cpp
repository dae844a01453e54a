// SPDX-License-Identifier: MIT
#include "tools/engine_subject.h"

#include "kernels/operations.h"

namespace draftproof {

Request varied(const Request& request, const Variation& variation) {
  Request result = request;
  result.draft_max = variation.draft_max;
  result.prompt_rows = variation.prompt_rows;
  result.verification = variation.verification;
  return result;
}

Engine& EngineSubject::engine(const Variation& variation) {
  set_threads(variation.threads);
  if (!engine_ || loaded_ != variation.kernels) {
    engine_.reset();
    engine_ = std::make_unique<Engine>(target_, with_table(kernels_by_name(variation.kernels), like_));
    loaded_ = variation.kernels;
  }
  return *engine_;
}

Trace EngineSubject::run_watched(const Request& request, const Variation& variation, Chance& chance,
                                 const AfterRound& after_round) {
  std::atomic<bool> ended = false;
  Watcher watch{{}, rows_};
  if (after_round) {
    watch.look = [&](const Trace& trace) {
      ended = !after_round(trace) || (cancelled_ != nullptr && cancelled_->load());
    };
  }
  return engine(variation).decode(varied(request, variation), variation.draft, *variation.rule, chance,
                                  Recording::digests, watch, after_round ? &ended : cancelled_);
}

std::string EngineSubject::numerics(const Variation& variation) {
  const auto [place, fresh] = numerics_.try_emplace(variation.kernels);
  if (fresh) place->second = numerics_of(with_table(kernels_by_name(variation.kernels), like_));
  return place->second;
}

}  // namespace draftproof
