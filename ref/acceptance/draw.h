// SPDX-License-Identifier: MIT
// One draw from a distribution: the only place where weights, a key and a source of chance meet. Plain decoding, the
// target's own tokens and the drafts' draft tokens all come from here, so equal keys and equal weights give equal tokens.
#pragma once

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/distribution.h"
#include "ref/base/token.h"

namespace draftproof {

/// A token of `distribution`. A point needs no chance and asks for none.
Token draw(const Distribution& distribution, const Key& key, RandomSource& random);
/// A token of what p has more than q; not all of it may be nothing.
Token draw(const Residual& residual, const Key& key, RandomSource& random);

}  // namespace draftproof
