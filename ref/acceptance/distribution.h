// SPDX-License-Identifier: MIT
// A probability distribution over tokens as integer weights with one fixed total, 2^52. Plain decoding draws from the
// same integers that acceptance compares, so "lossless" is a statement about integers, exact, and can be enumerated.
//
// D1  Weights sum to `total`.   D2  Tokens ascend, each once.   D3  No stored weight is zero.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ref/acceptance/row_scan.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"

namespace draftproof {

/// Whole numbers of at most 2^40, as row_scan.h has them: by token, in whole blocks, and only in the blocks named.
struct Shares {
  std::vector<float> values;
  std::vector<std::uint32_t> blocks;  // ascending; the values of others mean nothing
  std::uint64_t sum = 0;              // of these blocks
};

class Distribution {
 public:
  static constexpr std::uint64_t total = std::uint64_t{1} << 52;
  static constexpr std::uint64_t largest_share = std::uint64_t{1} << 40;

  Distribution() = default;  // empty: no distribution; only to be assigned to

  static Distribution point(Token token);

  /// From shares by token, of which the largest is 2^40: with reciprocal = floor(2^103 / sum), weight =
  /// floor(share * reciprocal / 2^51); what is left of the total goes to the largest share, the smallest token among
  /// equals. What is left lies in [0, n + n / 2048] for n shares, so no weight is off by more than that; see
  /// distribution.cpp. At most 2^23 shares.
  static Distribution quantised(const Shares& shares);

  /// Exact weights that sum to `total`; zero weights are left out. `tokens` as above.
  static Distribution exact(std::span<const Token> tokens, std::span<const std::uint64_t> weights);

  std::span<const Token> tokens() const noexcept { return tokens_; }
  std::span<const std::uint64_t> weights() const noexcept { return weights_; }
  std::uint64_t weight(Token token) const noexcept;  // 0 when absent
  bool is_point() const noexcept { return tokens_.size() == 1; }

  /// The same, in the memory this distribution has.
  void become_point(Token token);
  void become_quantised(const Shares& shares);

  Fingerprint fingerprint() const;
  bool operator==(const Distribution&) const = default;

 private:
  std::vector<Token> tokens_;
  std::vector<std::uint64_t> weights_;
};

/// max(p - q, 0) per token of p: tokens ascending with their positive weights. Empty only when p == q.
struct Residual {
  std::vector<Token> tokens;
  std::vector<std::uint64_t> weights;
};
Residual residual(const Distribution& p, const Distribution& q);

}  // namespace draftproof
