// SPDX-License-Identifier: MIT
#include "oracle/plain/subject.h"

namespace draftproof {

std::string Variation::describe() const {
  return "draft " + draft + (draft_max > 0 ? " (at most " + std::to_string(draft_max) + ")" : "") + ", " + rule->name +
         (prefill_chunk > 0 ? ", prefill in chunks of " + std::to_string(prefill_chunk) : "") + ", " +
         name_of(verification) + (kernels.empty() ? "" : ", " + kernels) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

}  // namespace draftproof
