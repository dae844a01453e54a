// SPDX-License-Identifier: MIT
// Draws one token from a distribution. This is the only place where weights, a key and a RandomSource meet: plain
// autoregressive decoding, the target's own tokens and the draft tokens are all drawn here, so equal keys and equal
// weights give equal tokens.
#pragma once

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/random_source.h"
#include "ref/base/token.h"

namespace draftproof {

/// Draws a token of `distribution`. A point distribution uses no randomness.
Token draw(const Distribution& distribution, const Key& key, RandomSource& random);
/// Draws a token of the residual distribution, which must not be empty.
Token draw(const Residual& residual, const Key& key, RandomSource& random);

}  // namespace draftproof
