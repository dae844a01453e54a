// SPDX-License-Identifier: MIT
// Applies samplers to a row in any order, on the list of all tokens that are left. Sampler (sampler.h) uses it for what
// a scan of token blocks cannot do: cuts before the temperature, and samplers other than top-k, top-p and min-p.
//
// A step sees the tokens that are left in their total order (larger logit first, then smaller token) and their raw
// weights floor(exp((z - best) / T) * 2^40): `best` is the best logit that is left, T the temperature that was applied,
// 1 before it was. sum is that of the raw weights. The surprise of a token is (best - z) / T + log(sum / 2^40), without
// bound where its raw weight is 0; the entropy is the sum of raw weight / sum * surprise. Both are in double, sums in
// that order, the logarithm that of kernels/math64.h.
//
//   penalties, dry   change logits (penalties.h); after a temperature those that were divided by it
//   temperature      T = temperature; with a range T = low + (high - low) * (entropy / log(tokens left))^exponent,
//                    rounded to float, low = max(0, temperature - range), high = temperature + range. T = 0 leaves the
//                    best token
//   top_n_sigma      drops logits < best - n * deviation, in double; the deviation is that of the logits that are left
//   top_k            keeps the first k
//   top_p            keeps a token while the sum before it is < top_p * sum
//   min_p            drops raw weights < min_p * 2^40
//   typ_p            keeps a token while the sum before it is <= typical_p * sum, in the order of |surprise - entropy|
//   xtc              of the first tokens with raw weight >= threshold * sum drops all but the last, with its
//                    probability: the row is the mixture of what follows with and without them, so no coin is tossed
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/penalties.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/acceptance/token_set.h"
#include "ref/base/token.h"

namespace draftproof {

class RankedSampler {
 public:
  /// Computes the distribution of a row with its biases and its constraint. The sampling is not greedy.
  void read(std::span<const float> logits, const Sampling& sampling, const History& history, Distribution& result,
            const TokenSet* allowed);

 private:
  /// The tokens that are left, and what is known of them. Copied where XTC makes two rows of one.
  struct Row {
    std::vector<float> z;  // of all tokens
    std::vector<Token> left;
    float temperature = 1;
    bool ranked = false;  // `left` is in order
    bool weighed = false;
    std::vector<float> raw;  // raw weights of `left`, where they are weighed
    std::uint64_t sum = 0;
  };

  void apply(Row& row, std::size_t from, Distribution& result);
  void apply_step(Row& row, SamplerStep step);
  void change_logits(Row& row, SamplerStep step);
  void rank(Row& row);
  void weigh(Row& row);
  void drop_below_blocks(Row& row, std::size_t count);
  void keep_first(Row& row, std::size_t count);
  double entropy(Row& row);
  static double surprise(const Row& row, std::size_t place, double log_sum);
  void keep_typical(Row& row);
  void set_temperature(Row& row);
  std::size_t excluded(Row& row);
  void finish(Row& row, Distribution& result);

  const Sampling* sampling_ = nullptr;
  History history_;
  const TokenSet* allowed_ = nullptr;
  Row row_;  // its memory is kept from row to row
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> spare_keys_;
  std::vector<float> logits_;
  std::vector<std::uint32_t> blocks_;
  std::vector<char> has_weights_;  // [block]
  FixedPointWeights weights_;
};

/// Whether the scan of token blocks gives this sampling its distribution: penalties and DRY, then temperature, top-k,
/// top-p and min-p in this order, apart from those that change nothing.
bool scan_suffices(const Sampling& sampling) noexcept;

}  // namespace draftproof
