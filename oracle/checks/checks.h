// SPDX-License-Identifier: MIT
// The checks of a trial, one file each in oracle/checks. A new one is a new file, a declaration and a row in
// checks.cpp.
#pragma once

#include <span>

#include "oracle/checks/check.h"

namespace draftproof {

extern const Check tokens_equal;
extern const Check logits_equal;
extern const Check acceptance_correct;
extern const Check cache_rollback;
extern const Check batch_invariance;
extern const Check config_invariance;
extern const Check draft_state;
extern const Check rng_accounting;
extern const Check repeatable;
extern const Check chunked_prefill_and_resume;
extern const Check sequence_isolation;
extern const Check prefix_reuse;
extern const Check log_probabilities;
extern const Check termination_and_counters;

/// Returns the checks above, in that order.
std::span<const Check* const> all_checks() noexcept;

}  // namespace draftproof
