// SPDX-License-Identifier: MIT
#include "ref/acceptance/draw.h"

#include "ref/base/require.h"

namespace draftproof {

Token draw(const Distribution& distribution, const Key& key, Chance& chance) {
  REQUIRE(!distribution.tokens().empty(), "an empty distribution cannot be drawn from");
  if (distribution.is_point()) return distribution.tokens()[0];
  return distribution.tokens()[chance.pick(key, distribution.weights())];
}

}  // namespace draftproof
