// SPDX-License-Identifier: MIT
// The recurrent layer of Mamba-2.
#pragma once

#include <string>

#include "oracle/twin/facts.h"
#include "oracle/twin/family.h"

namespace draftproof::twin {

/// Returns the layer's output for normalized rows. `prefix` ends in "mamba.".
Matrix state_space(const TwinWeights& weights, const DecoderFacts& facts, const std::string& prefix, const Matrix& x,
                   LayerPast& kept);

/// Appends rows to a text of Mamba-1 with the norms of Jamba, and returns what it gives for them.
Matrix selective_scan(const TwinWeights& weights, const DecoderFacts& facts, const std::string& prefix, const Matrix& x,
                      LayerPast& kept);

}  // namespace draftproof::twin
