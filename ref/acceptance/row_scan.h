// SPDX-License-Identifier: MIT
// Loops over one row of logits of a whole vocabulary, in token blocks of 64 tokens. The best logit of a token block
// tells whether the costly steps can skip it, and most token blocks of most rows are skipped. These are plain loops
// that the compiler vectorizes.
//
// A raw weight is floor(exp((z - best) / temperature) * 2^40), a softmax numerator before normalization: an integer of
// at most 2^40 in a float. It is the floor of a float, so it has at most 24 significant bits and the float holds it
// exactly. Every function here is elementwise or sums integers, so no result depends on how a loop is split or
// vectorized. Those that see many logits are split over threads (kernels/threads.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ref/acceptance/token_block.h"
#include "ref/base/token.h"

namespace draftproof {

/// A row seen as whole token blocks. The last one is padded with -infinity, whose raw weight is always 0.
class BlockedRow {
 public:
  explicit BlockedRow(std::span<const float> z);

  std::size_t blocks() const noexcept { return blocks_; }
  const float* block(std::size_t index) const noexcept {
    return index < whole_ ? z_ + index * token_block_size : last_.data();
  }

 private:
  const float* z_;
  std::size_t whole_;  // token blocks without padding
  std::size_t blocks_;
  std::array<float, token_block_size> last_;
};

/// Sets best[b] to the largest logit of token block b. Returns false when a logit is NaN or +infinity; `best` is then
/// meaningless.
bool find_best_of_blocks(const BlockedRow& row, float* best) noexcept;

/// Computes raw_weights = floor(exp((z - best) / temperature) * 2^40) for each of `blocks` and returns their sum. Raw
/// weights are monotone in the logit (tests/kernels/exp_test.cpp), so the raw weight of a token block's best logit
/// bounds all others of that token block.
std::uint64_t find_raw_weights(const BlockedRow& row, TokenBlocks blocks, float best, float temperature,
                               float* raw_weights) noexcept;

/// Zeroes, within `blocks`, the raw weights of logits below `threshold` and the raw weights below `min_weight`. Returns
/// the sum of the remaining ones.
std::uint64_t truncate_raw_weights(const BlockedRow& row, TokenBlocks blocks, float threshold, float min_weight,
                                   float* raw_weights) noexcept;

/// Returns the place in `blocks` of the first token block that contains this raw weight; blocks.size() when there is
/// none.
std::size_t find_block_with(TokenBlocks blocks, float weight, const float* raw_weights) noexcept;

inline constexpr int bits_of_bucket = 11;
inline constexpr std::size_t buckets = std::size_t{1} << bits_of_bucket;

/// Maps logits to buckets 0 ... last, below `buckets`: min(floor((best - z) * buckets_per_logit), last). A worse logit
/// never gets an earlier bucket than a better one: a difference, a product with a positive number, a minimum and a
/// floor are all monotone.
struct BucketScale {
  float best;
  float buckets_per_logit;
  std::int32_t last;
};

/// What a token adds to its bucket: 1 or its raw weight. A token of raw weight 0 adds 0 in both cases.
enum class CountBy : std::uint8_t { token, raw_weight };

/// Adds to counts[bucket] what the tokens of `blocks` count.
void add_to_buckets(const BlockedRow& row, TokenBlocks blocks, const BucketScale& scale, CountBy count_by,
                    const float* raw_weights, std::array<std::uint64_t, buckets>& counts) noexcept;

/// Writes the tokens of `bucket` with a positive raw weight, ascending, and returns how many there are. `tokens` has
/// room for all tokens of `blocks`.
std::size_t find_in_bucket(const BlockedRow& row, TokenBlocks blocks, const BucketScale& scale, std::int32_t bucket,
                           const float* raw_weights, Token* tokens) noexcept;

struct WeightSum {
  std::size_t blocks;
  std::uint64_t sum;
};

/// Computes weight = floor(raw weight * reciprocal / 2^51), reciprocal <= 2^63. For each token block with a positive
/// weight, writes its index to `found`, the sum of its weights to `sums`, and its 64 weights to `weights`, one token
/// block after the other. The outputs have room for all of `blocks`.
WeightSum normalize_raw_weights(TokenBlocks blocks, const float* raw_weights, std::uint64_t reciprocal,
                                std::uint32_t* found, std::uint64_t* sums, std::uint64_t* weights) noexcept;

/// Returns the sum of max(p - q, 0) over one token block.
std::uint64_t sum_of_difference(const std::uint64_t* p, const std::uint64_t* q) noexcept;

}  // namespace draftproof
