// SPDX-License-Identifier: MIT
// The checks of a build. They need no trial and no model: they enumerate small cases.
#pragma once

#include <span>
#include <string_view>

#include "oracle/checks/check.h"

namespace draftproof {

extern const Check distribution_exact;      // oracle/exact/exact_distribution.h
extern const Check exhaustive_small_cases;  // oracle/exact/exhaustive_small_cases.h

std::span<const Check* const> build_checks() noexcept;

/// Returns the check of that name in all_checks() or build_checks(); one of them must have it.
const Check& check_named(std::string_view name);

}  // namespace draftproof
