// SPDX-License-Identifier: MIT
// Where a row is cut when its tokens, taken in their total order (larger logit first, then smaller token), may stay
// only while what was taken before them is small enough: top-k counts tokens, top-p adds up shares. Nothing is sorted:
// buckets of the order say in which of them the cut lies, and only the tokens in there are looked at again.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ref/acceptance/row_scan.h"

namespace draftproof {

struct Truncation {
  float threshold;                  // logits below fall
  std::span<const Token> tied;  // and so do these tokens, whose logit is `worst`
};

class TruncationFinder {
 public:
  /// The cut among the positive shares of the blocks. `best`: the largest logit. `stays(taken)`: a token stays that
  /// comes after so much; true for 0, and false for more whenever it is false. `reach`: how far below the best logit
  /// tokens are told apart at first; decides the cost, not the result. `tied` lives until the next call.
  Truncation find(const BlockedRow& row, TokenBlocks blocks, const float* shares, float best, float depth, CountBy amount,
           const std::function<bool(std::uint64_t)>& stays);

 private:
  static constexpr int bits_of_bucket = 11;
  static constexpr std::size_t buckets = std::size_t{1} << bits_of_bucket;

  struct Candidate {
    std::uint32_t depth;  // below the best logit, in floats
    Token token;
    std::uint64_t amount;
  };

  std::size_t bucket_of_cut(std::uint64_t& before, const std::function<bool(std::uint64_t)>& stays) const;

  std::array<std::uint64_t, buckets> taken_{};
  std::vector<Candidate> candidates_;
  std::vector<Token> tokens_;  // of one bucket; at the end those tied
};

}  // namespace draftproof
