// SPDX-License-Identifier: MIT
// Queries that grow with their position p, of models made for contexts longer than what they were trained on: behind
// RoPE, q = q * (1 + beta * ln(1 + floor((p + ahead) / step))), the factor computed in double and rounded once.
#pragma once

#include <cstdint>

#include "ref/models/transformer.h"

namespace draftproof {

struct QueryGrowth {
  double beta = 0;
  std::int64_t step = 1;  // positions
  int ahead = 0;

  float at(int position) const;
};

/// Multiplies the queries of all rows, which the layer has projected.
void grow_queries(const TransformerPass& pass, const AttentionLayer& layer, const QueryGrowth& growth);

}  // namespace draftproof
