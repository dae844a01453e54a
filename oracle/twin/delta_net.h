// SPDX-License-Identifier: MIT
// The recurrent layer of Qwen3.5, a gated delta net.
#pragma once

#include <string>

#include "oracle/twin/family.h"

namespace draftproof::twin {

/// Returns the layer's output for normalized rows. `prefix` ends in "linear_attn.".
Matrix delta_net(const TwinWeights& weights, const std::string& prefix, const Matrix& x, LayerPast& kept);

}  // namespace draftproof::twin
