// SPDX-License-Identifier: MIT
#include "ref/acceptance/sampling_params.h"

#include <algorithm>

namespace draftproof {
namespace {

void turn_off(Sampling& sampling, SamplerStep step) {
  switch (step) {
    case SamplerStep::penalties: sampling.repeat_last_n = 0; break;
    case SamplerStep::dry: sampling.dry_multiplier = 0; break;
    case SamplerStep::temperature:
      sampling.temperature = 1;
      sampling.dynatemp_range = 0;
      break;
    case SamplerStep::top_n_sigma: sampling.top_n_sigma = 0; break;
    case SamplerStep::top_k: sampling.top_k = 0; break;
    case SamplerStep::top_p: sampling.top_p = 1; break;
    case SamplerStep::min_p: sampling.min_p = 0; break;
    case SamplerStep::typ_p: sampling.typical_p = 1; break;
    case SamplerStep::xtc: sampling.xtc_probability = 0; break;
  }
}

}  // namespace

bool Sampling::applies(SamplerStep step) const noexcept {
  switch (step) {
    case SamplerStep::penalties: return penalizes();
    case SamplerStep::dry: return dries();
    case SamplerStep::temperature: return temperature != 1 || dynatemp_range > 0;
    case SamplerStep::top_n_sigma: return top_n_sigma > 0;
    case SamplerStep::top_k: return top_k > 0;
    case SamplerStep::top_p: return top_p > 0 && top_p < 1;
    case SamplerStep::min_p: return min_p > 0 && min_p <= 1;
    case SamplerStep::typ_p: return typical_p > 0 && typical_p < 1;
    case SamplerStep::xtc: return excludes();
  }
  return false;
}

void Sampling::apply_only(std::span<const SamplerStep> listed) {
  order = order_from(listed);
  for (const SamplerStep step : order) {
    if (std::ranges::find(listed, step) == listed.end()) turn_off(*this, step);
  }
}

void Sampling::apply_named(std::vector<std::string> names) {
  const bool adapts = !names.empty() && names.back() == "adaptive_p";
  if (adapts) names.pop_back();
  const bool whole = names.size() == 1 && !find_sampler_step(names[0]);  // the name of an order
  apply_only(parse_samplers(names));
  if (!adapts && !whole) adaptive_target = -1;
}

void Sampling::apply_mirostat_alone() {
  constexpr SamplerStep only[] = {SamplerStep::temperature};
  apply_only(only);
  order = transformers_order;
  dynatemp_range = 0;
  adaptive_target = -1;
}

}  // namespace draftproof
