// SPDX-License-Identifier: MIT
// A probability distribution over tokens as integer weights with a fixed total, 2^52. Plain autoregressive decoding
// draws from the same integers that acceptance compares, so "lossless" is an exact statement about integers and can be
// checked by enumeration.
//
// Weights are stored in token blocks, each with its sum, so that a draw reads the sums and one token
// block.
//
// D1  The weights sum to `total`.
// D2  Token blocks are ascending and distinct.
// D3  Every stored token block has a positive weight.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ref/acceptance/token_block.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"

namespace draftproof {

/// Raw weights of a row (row_scan.h): integers of at most 2^40, indexed by token. Only those in `blocks` are valid.
struct FixedPointWeights {
  std::vector<float> values;
  std::vector<std::uint32_t> blocks;  // token blocks, ascending; values outside of them are meaningless
  std::uint64_t sum = 0;              // over these token blocks
};

using WeightBlock = std::span<const std::uint64_t, token_block_size>;

class Distribution {
 public:
  static constexpr std::uint64_t total = std::uint64_t{1} << 52;
  static constexpr std::uint64_t largest_weight = std::uint64_t{1} << 40;

  Distribution() = default;  // no distribution; may only be assigned to

  static Distribution point(Token token);

  /// Normalizes raw weights, the largest of which is 2^40, to `total`: weight = floor(raw * reciprocal / 2^51) with
  /// reciprocal = floor(2^103 / sum). The remainder goes to the token of the largest raw weight, the smallest token
  /// among equals. The remainder lies in [0, n + n / 2048] for n raw weights, which bounds the error of each weight;
  /// distribution.cpp has the proof. n is at most 2^23.
  static Distribution quantized(const FixedPointWeights& raw);

  /// Takes weights that sum to exactly `total`, one per token; zero weights are not stored. `tokens` are ascending and
  /// distinct; when empty they are 0, 1, 2, ...
  static Distribution exact(std::span<const Token> tokens, std::span<const std::uint64_t> weights);

  /// Scales weights, at least one of which is positive, to `total`: floor(weight * total / sum). The remainder goes to
  /// the largest weight, the first among equals. `tokens` as above.
  static Distribution scaled(std::span<const Token> tokens, std::span<const std::uint64_t> weights);

  std::uint64_t weight(Token token) const noexcept;  // 0 for a token that is not stored
  bool is_point() const noexcept;

  TokenBlocks blocks() const noexcept { return blocks_; }
  std::span<const std::uint64_t> sums() const noexcept { return sums_; }  // one per token block
  /// Returns the 64 weights of token block blocks()[place].
  WeightBlock block(std::size_t place) const noexcept {
    return WeightBlock(values_.data() + place * token_block_size, token_block_size);
  }

  /// Return the tokens of positive weight, ascending, and their weights. The lists are built on each call.
  std::vector<Token> tokens() const;
  std::vector<std::uint64_t> weights() const;

  /// The same as point() and quantized(), reusing the storage of this distribution.
  void become_point(Token token);
  void become_quantized(const FixedPointWeights& raw);
  /// Mixes p and q, which are not this one: weight = floor((p * (2^24 - s) + q * s) / 2^24), s the nearest integer to
  /// share * 2^24. The remainder goes to the largest weight, the smallest token among equals. `share` above 1 is 1.
  void become_mixture(const Distribution& p, const Distribution& q, float share);

  std::uint64_t bytes() const noexcept;  // of RAM
  /// Bytes of a distribution over a whole vocabulary: a weight and, with its block, up to a half as much again.
  static std::uint64_t bytes_for(int vocabulary) noexcept { return 12 * static_cast<std::uint64_t>(vocabulary); }

  Fingerprint fingerprint() const;
  bool operator==(const Distribution& other) const noexcept;

 private:
  std::vector<std::uint32_t> blocks_;
  std::vector<std::uint64_t> sums_;
  std::vector<std::uint64_t> values_;  // may be larger than the token blocks need: it never shrinks
};

/// The residual distribution max(of_p * p - of_q * q, 0), not normalized; the factors are at most 2^11. Stores only the
/// sums of its token blocks and computes a token block when it is read. With equal factors empty only when p == q.
/// Refers to p and q, which must outlive it.
class Residual {
 public:
  Residual(const Distribution& p, const Distribution& q, std::uint64_t of_p = 1, std::uint64_t of_q = 1);

  TokenBlocks blocks() const noexcept { return blocks_; }
  std::span<const std::uint64_t> sums() const noexcept { return sums_; }
  std::uint64_t sum() const noexcept;
  using Block = std::array<std::uint64_t, token_block_size>;
  Block block(std::size_t place) const noexcept;

  std::vector<Token> tokens() const;
  std::vector<std::uint64_t> weights() const;

 private:
  Block difference(WeightBlock p, WeightBlock q) const noexcept;

  const Distribution& p_;
  const Distribution& q_;
  std::uint64_t of_p_;
  std::uint64_t of_q_;
  std::vector<std::uint32_t> blocks_;
  std::vector<std::uint64_t> sums_;
};

}  // namespace draftproof
