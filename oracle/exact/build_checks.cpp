// SPDX-License-Identifier: MIT
#include "oracle/exact/build_checks.h"

#include "oracle/checks/checks.h"
#include "ref/base/by_name.h"
#include "ref/base/require.h"

namespace draftproof {

std::span<const Check* const> build_checks() noexcept {
  static constexpr const Check* list[] = {&distribution_exact, &exhaustive_small_cases};
  return list;
}

const Check& check_named(std::string_view name) {
  const Check* const* check = find_by_name(all_checks(), name);
  if (check == nullptr) check = find_by_name(build_checks(), name);
  REQUIRE(check != nullptr, "one of the two lists has a check of that name");
  return **check;
}

}  // namespace draftproof
