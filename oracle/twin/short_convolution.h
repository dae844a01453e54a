// SPDX-License-Identifier: MIT
// The recurrent layer of LFM2, a gated short convolution.
#pragma once

#include <string>

#include "oracle/twin/family.h"

namespace draftproof::twin {

/// Returns the layer's output for normalized rows. `prefix` ends in "conv.".
Matrix short_convolution(const TwinWeights& weights, const std::string& prefix, const Matrix& x, LayerPast& kept);

}  // namespace draftproof::twin
