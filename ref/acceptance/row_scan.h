// SPDX-License-Identifier: MIT
// The loops that pass over a whole row of a vocabulary, in blocks of 64 tokens: what is known of a block's best logit
// spares most blocks of most rows everything that is dear. Plain loops, which the compiler turns into vectors.
//
// A share is a whole number of at most 2^40 in a float: it comes from a float by floor, so it has at most 24
// significant bits and the float holds it exactly. Everything here is elementwise or a sum of integers: no result
// depends on how the loops are cut or vectorized.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ref/base/token.h"

namespace draftproof {

inline constexpr std::size_t token_block_size = 64;

/// A view of a row as whole blocks: what the last one lacks is -infinity, which never has a share.
class BlockedRow {
 public:
  explicit BlockedRow(std::span<const float> z);

  std::size_t blocks() const noexcept { return blocks_; }
  const float* block(std::size_t index) const noexcept {
    return index < whole_ ? z_ + index * token_block_size : last_.data();
  }

 private:
  const float* z_;
  std::size_t whole_;  // blocks without padding
  std::size_t blocks_;
  std::array<float, token_block_size> last_;
};

using TokenBlocks = std::span<const std::uint32_t>;  // indices, ascending

/// best[b]: the largest logit of block b. False when a logit is NaN or +infinity; `best` then means nothing.
bool find_best_of_blocks(const BlockedRow& row, float* best) noexcept;

/// For each of the blocks, shares = floor(exp((z - best) / temperature) * 2^40); returns their sum. Shares never rise
/// as logits fall (tests/kernels/exp_test.cpp), so that of a block's best bounds the block's.
std::uint64_t find_weights_2_40(const BlockedRow& row, TokenBlocks blocks, float best, float temperature, float* shares) noexcept;

/// Clears, in the blocks, the shares of logits below `worst` and those below `least`; returns the sum of the others.
std::uint64_t keep_shares(const BlockedRow& row, TokenBlocks blocks, float threshold, float least, float* shares) noexcept;

/// The first of the blocks that holds a share of that size; blocks.size() when there is none.
std::size_t find_block_with(TokenBlocks blocks, float share, const float* shares) noexcept;

/// Puts logits into buckets 0 ... last, worse ones never before better ones: a difference, a product with a positive
/// number, a minimum and a floor keep the order.
struct BucketScale {
  float best;
  float scale;
  std::int32_t last;
};

/// What a token counts for: itself, or its share. One without a share counts for nothing.
enum class CountBy : std::uint8_t { token, share };

/// Adds up, in buckets[0 ... last], what the tokens of the blocks count for.
void add_to_buckets(const BlockedRow& row, TokenBlocks blocks, const BucketScale& ruler, CountBy amount, const float* shares,
                    std::uint64_t* buckets) noexcept;

/// Writes the tokens in `bucket` that have a share, ascending; returns how many. There is room for all of the blocks.
std::size_t find_in_bucket(const BlockedRow& row, TokenBlocks blocks, const BucketScale& ruler, std::int32_t bucket,
                           const float* shares, Token* tokens) noexcept;

struct WeightSum {
  std::size_t blocks;
  std::uint64_t sum;
};
/// For each block with a positive weight: the block, the sum of its weights, and all of them, one block after the
/// other. weight = floor(share * reciprocal / 2^51), reciprocal <= 2^63. There is room for all of the blocks.
WeightSum find_weights(TokenBlocks blocks, const float* shares, std::uint64_t reciprocal, std::uint32_t* found,
                       std::uint64_t* sums, std::uint64_t* weights) noexcept;

/// Of one block: the sum of max(p - q, 0).
std::uint64_t sum_of_difference(const std::uint64_t* p, const std::uint64_t* q) noexcept;

}  // namespace draftproof
