// SPDX-License-Identifier: MIT
#include "oracle/checks/checks.h"

namespace draftproof {

std::span<const Check* const> all_checks() noexcept {
  // clang-format off
  static constexpr const Check* list[] = {
      &tokens_equal,
      &logits_equal,
      &acceptance_correct,
      &cache_rollback,
      &batch_invariance,
      &config_invariance,
      &draft_state,
      &rng_accounting,
      &repeatable,
      &chunked_prefill_and_resume,
      &sequence_isolation,
      &prefix_reuse,
      &log_probabilities,
      &termination_and_counters,
  };
  // clang-format on
  return list;
}

}  // namespace draftproof
