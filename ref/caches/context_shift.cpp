// SPDX-License-Identifier: MIT
#include "ref/caches/context_shift.h"

namespace draftproof {

std::string ContextShift::error() const {
  if (discard < 1) return "a context shift drops at least one position, not " + std::to_string(discard);
  if (keep < 0) return "a context shift keeps 0 or more positions, not " + std::to_string(keep);
  if (context - 1 - discard >= keep) return "";
  return "a context shift that keeps " + std::to_string(keep) + " positions and drops " + std::to_string(discard) +
         " needs a context of more than both together, not " + std::to_string(context);
}

int ContextShift::dropped(int tokens) const noexcept {
  if (tokens <= context) return 0;
  const int over = tokens - context;
  return (over / discard + (over % discard != 0)) * discard;
}

int ContextShift::make_room(Cache& cache) const {
  if (cache.length() < context) return 0;
  cache.discard(keep, discard);
  return discard;
}

}  // namespace draftproof
