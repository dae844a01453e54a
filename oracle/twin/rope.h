// SPDX-License-Identifier: MIT
// Rotary position embedding: how far each pair of dimensions of a head turns per position.
#pragma once

#include <optional>
#include <vector>

#include "oracle/twin/facts.h"
#include "oracle/twin/matrix.h"
#include "oracle/twin/weights.h"

namespace draftproof::twin {

struct TwinRope {
  std::vector<double> frequencies;  // angle per position of the pair (j, j + frequencies.size()) of a head
  double magnitude = 1;             // of cosine and sine
};

/// Returns the RoPE of all families but Gemma, the first `turned` dimensions of heads of `head_dim` turning: plain, or
/// with wavelengths stretched as llama3, linear, yarn or one list of factors of longrope say. Throws Error for another
/// kind.
TwinRope rope_of(const TwinWeights& weights, const RopeFacts& of, int turned, int head_dim);

/// Returns that of Gemma's full or sliding layers: plain, linear or proportional. Throws Error for another kind.
TwinRope gemma_rope_of(const TwinWeights& weights, bool sliding, int head_dim);

/// Turns every head of every row; row r is at position first + r.
void rotate(Matrix& rows, const TwinRope& rope, int head_dim, int first);

}  // namespace draftproof::twin
