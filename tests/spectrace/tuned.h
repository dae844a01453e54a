// SPDX-License-Identifier: MIT
// Traces of runs in which a tuner chooses how many draft tokens a draft is asked for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ref/drafts/chain.h"
#include "ref/drafts/model_draft.h"
#include "ref/drafts/ngram_map_k.h"
#include "tests/spectrace/support.h"

namespace draftproof::spectrace::tuned {

inline constexpr int max = 6;

/// A chain of look-ups in the text and of a model, whose proposals pay, or not, as texts go.
inline DraftCosts chain_costs() {
  DraftCosts costs{.verify = {1}, .draft = {{0}, {0}}, .reading = {0.01, 0.1}};
  for (int n = 1; n <= max; ++n) {
    costs.verify.push_back(1 + 0.1 * n);
    costs.draft[0].push_back(0.02);
    costs.draft[1].push_back(0.1 + 0.1 * n);
  }
  return costs;
}

/// A model that often agrees with the target, and one that seldom does.
inline constexpr std::uint64_t agrees = 5;
inline constexpr std::uint64_t differs = 6;

inline Decoded of_chain(std::uint64_t model_seed, const Rule& rule, const std::vector<Token>& stops = {}) {
  const auto model = make_hash_model({.vocabulary = 6, .levels = 4, .seed = model_seed});
  std::vector<std::unique_ptr<Draft>> stages;
  stages.push_back(std::make_unique<NgramMapKDraft>(max, NgramMapKSettings{.n = 1, .m = max, .min_hits = 1}));
  stages.push_back(std::make_unique<ModelDraft>(*model, 400, max));
  ChainDraft chain(std::move(stages), Tuner(chain_costs()), ChainDraft::Costs::as_given);
  return decoded(chain, rule, stops);
}

}  // namespace draftproof::spectrace::tuned
