// SPDX-License-Identifier: MIT
// Finds where top-k or top-p truncates a row. Tokens are taken in their total order (larger logit first, then smaller
// token); a token is kept while the count of the tokens before it is small enough. top-k counts tokens, top-p adds up
// raw weights (row_scan.h). Nothing is sorted: the logits are put into buckets by size, and only the tokens of the
// bucket that contains the boundary are examined further.
//
// Example: raw weights 8, 4, 2, 1. top-k 2 keeps 8 and 4. top-p 0.75 of their sum is 11.25: 8 is kept (0 before it), 4
// is kept (8 before it), 2 is not (12 before it).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ref/acceptance/row_scan.h"

namespace draftproof {

struct Truncation {
  float threshold;              // tokens with a smaller logit are removed
  std::span<const Token> tied;  // these tokens have exactly the logit `threshold` and are removed as well
};

class TruncationFinder {
 public:
  /// Finds the boundary among the tokens of `blocks` with positive raw weights. `best`: the largest logit.
  /// `is_kept(count)`: whether a token is kept when the tokens before it count that much; true for 0, and once false,
  /// false for every larger count. `depth`: how far below `best` the first buckets reach; it affects the cost and
  /// never the result. `tied` of the result lives until the next call.
  Truncation find(const BlockedRow& row, TokenBlocks blocks, const float* raw_weights, float best, float depth,
                  CountBy count_by, const std::function<bool(std::uint64_t)>& is_kept);

 private:
  struct Candidate {
    std::uint32_t depth;  // number of floats between its logit and the best one
    Token token;
    std::uint64_t count;  // 1 or its raw weight
  };

  std::size_t find_boundary_bucket(std::uint64_t& before, const std::function<bool(std::uint64_t)>& is_kept) const;

  std::array<std::uint64_t, buckets> counts_{};
  std::vector<Candidate> candidates_;
  std::vector<Token> tokens_;  // the tokens of one bucket; at the end the tied ones
};

}  // namespace draftproof
