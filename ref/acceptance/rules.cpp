// SPDX-License-Identifier: MIT
// The list of acceptance rules. A new rule is a new file and a row here.
#include "ref/acceptance/rule.h"

namespace draftproof {

const Rule* const* all_rules() noexcept {
  static constexpr const Rule* rules[] = {
      &matching,
      &rejection,
      &block,
      nullptr,
  };
  return rules;
}

const Rule* find_rule(std::string_view name) noexcept {
  for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule)
    if (name == (*rule)->name) return *rule;
  return nullptr;
}

}  // namespace draftproof
