// SPDX-License-Identifier: MIT
#include "ref/drafts/oracular.h"

#include <algorithm>

namespace draftproof {

Token HostileDraft::guess(std::span<const float> logits, Guesses& guesses) {
  // The last of the least: under greedy, where the first of the best wins, even a flat row refuses it.
  const auto least = std::min_element(logits.rbegin(), logits.rend());
  const auto token = static_cast<Token>(logits.rend() - least - 1);
  guesses.name(token);
  return token;
}

}  // namespace draftproof
