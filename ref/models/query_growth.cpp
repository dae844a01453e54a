// SPDX-License-Identifier: MIT
#include "ref/models/query_growth.h"

#include "kernels/math64.h"
#include "kernels/threads.h"

namespace draftproof {

float QueryGrowth::at(int position) const {
  return static_cast<float>(1 + beta * log64(static_cast<double>(1 + (std::int64_t{position} + ahead) / step)));
}

void grow_queries(const TransformerPass& pass, const AttentionLayer& layer, const QueryGrowth& growth) {
  for_rows(pass.rows, 1.0 * pass.rows * layer.q_width(), [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const float factor = growth.at(pass.scratch.positions[static_cast<std::size_t>(row)]);
      float* const q = pass.scratch.qkv.data() + static_cast<std::ptrdiff_t>(row) * layer.projected();
      for (int j = 0; j < layer.q_width(); ++j) q[j] *= factor;
    }
  });
}

}  // namespace draftproof
