// SPDX-License-Identifier: MIT
// The recurrent layer of Kimi Linear: a gated delta net whose key dimensions decay apart.
#pragma once

#include <string>

#include "oracle/twin/family.h"

namespace draftproof::twin {

/// Returns the layer's output for normalized rows. `prefix` ends in "self_attn.".
Matrix kimi_delta(const TwinWeights& weights, const std::string& prefix, const Matrix& x, LayerPast& kept);

}  // namespace draftproof::twin
