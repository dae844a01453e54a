// SPDX-License-Identifier: MIT
#include "tools/engine_subject.h"

#include "kernels/operations.h"

namespace draftproof {

Request varied(const Request& request, const Variation& variation) {
  Request result = request;
  result.draft_max = variation.draft_max;
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

Trace EngineSubject::run(const Request& request, const Variation& variation, Chance& chance) {
  return engine(variation).decode(varied(request, variation), variation.draft, *variation.rule, chance,
                                  recording_, {}, cancelled_);
}

std::string EngineSubject::numerics(const Variation& variation) {
  const auto [place, fresh] = numerics_.try_emplace(variation.kernels);
  if (fresh) place->second = kernels_by_name(variation.kernels).numerics;
  return place->second;
}

}  // namespace draftproof
