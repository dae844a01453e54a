// SPDX-License-Identifier: MIT
#include "ref/drafts/oracular.h"

#include <algorithm>

namespace draftproof {

Token least_likely(std::span<const float> logits) {
  return static_cast<Token>(logits.rend() - std::min_element(logits.rbegin(), logits.rend()) - 1);
}

Token HostileDraft::guess(std::span<const float> logits, Guesses& guesses) {
  const Token token = least_likely(logits);
  guesses.name(token);
  return token;
}

}  // namespace draftproof
