// SPDX-License-Identifier: MIT
// A probability distribution over tokens as integer weights with one fixed total, 2^52. Plain decoding draws from the
// same integers that acceptance compares, so "lossless" is a statement about integers, exact, and can be enumerated.
//
// They lie in the blocks of row_scan.h, each with its sum, so that a draw looks at the sums and into one block.
//
// D1  Weights sum to `total`.   D2  Blocks ascend, each once.   D3  No block that is stored has only zeros.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ref/acceptance/row_scan.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"

namespace draftproof {

/// Whole numbers of at most 2^40, as row_scan.h has them: by token, in whole blocks, and only in the blocks named.
struct FixedPointWeights {
  std::vector<float> values;
  std::vector<std::uint32_t> blocks;  // ascending; the values of others mean nothing
  std::uint64_t sum = 0;              // of these blocks
};

using WeightBlock = std::span<const std::uint64_t, token_block_size>;

class Distribution {
 public:
  static constexpr std::uint64_t total = std::uint64_t{1} << 52;
  static constexpr std::uint64_t largest_weight = std::uint64_t{1} << 40;

  Distribution() = default;  // empty: no distribution; only to be assigned to

  static Distribution point(Token token);

  /// From shares by token, of which the largest is 2^40: with reciprocal = floor(2^103 / sum), weight =
  /// floor(share * reciprocal / 2^51); what is left of the total goes to the largest share, the smallest token among
  /// equals. What is left lies in [0, n + n / 2048] for n shares, so no weight is off by more than that; see
  /// distribution.cpp. At most 2^23 shares.
  static Distribution quantized(const FixedPointWeights& shares);

  /// Exact weights that sum to `total`; zero weights are left out. `tokens` as above.
  static Distribution exact(std::span<const Token> tokens, std::span<const std::uint64_t> weights);

  std::uint64_t weight(Token token) const noexcept;  // 0 when absent
  bool is_point() const noexcept;

  TokenBlocks blocks() const noexcept { return blocks_; }
  std::span<const std::uint64_t> sums() const noexcept { return sums_; }  // of the blocks
  /// Of the tokens of the block with that place among the blocks; 0 when absent.
  WeightBlock block(std::size_t place) const noexcept {
    return WeightBlock(values_.data() + place * token_block_size, token_block_size);
  }

  /// Lists of the positive weights, tokens ascending; made for who asks.
  std::vector<Token> tokens() const;
  std::vector<std::uint64_t> weights() const;

  /// The same, in the memory this distribution has.
  void become_point(Token token);
  void become_quantized(const FixedPointWeights& shares);

  std::uint64_t bytes() const noexcept;  // of memory
  /// Bytes of a distribution over a whole vocabulary: a weight and, with its block, up to a half as much again.
  static std::uint64_t bytes_for(int vocabulary) noexcept { return 12 * static_cast<std::uint64_t>(vocabulary); }

  Fingerprint fingerprint() const;
  bool operator==(const Distribution& other) const noexcept;

 private:
  std::vector<std::uint32_t> blocks_;
  std::vector<std::uint64_t> sums_;
  std::vector<std::uint64_t> values_;  // may be longer than the blocks: it grows and never shrinks
};

/// max(p - q, 0) per token: only the sums of its blocks are stored, a block is found when it is asked for. Empty only
/// when p == q. Sees p and q as long as it lives.
class Residual {
 public:
  Residual(const Distribution& p, const Distribution& q);

  TokenBlocks blocks() const noexcept { return blocks_; }
  std::span<const std::uint64_t> sums() const noexcept { return sums_; }
  std::array<std::uint64_t, token_block_size> block(std::size_t place) const noexcept;

  std::vector<Token> tokens() const;
  std::vector<std::uint64_t> weights() const;

 private:
  const Distribution& p_;
  const Distribution& q_;
  std::vector<std::uint32_t> blocks_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace draftproof
