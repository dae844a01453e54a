// SPDX-License-Identifier: MIT
// Turns a row of logits into a distribution: logit bias, constraint, then the steps of Sampling::order. One total order
// breaks every tie: larger logit first, then smaller token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/penalties.h"
#include "ref/acceptance/ranked_sampler.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/acceptance/token_set.h"
#include "ref/acceptance/truncation.h"
#include "ref/base/token.h"

namespace draftproof {

/// Turns rows of logits into distributions. Owns the scratch memory, so nothing is allocated from the second row on.
class Sampler {
 public:
  /// Computes the distribution of one row:
  /// 1. The biases are added, and the logits of tokens that are not `allowed` become -infinity; nullptr: all are.
  /// 2. Greedy: penalties and DRY (penalties.h), then the point distribution on the best z, and done: no other step can
  ///    change it, and XTC and typical sampling, which drop best tokens, do not apply.
  /// 3. Otherwise the steps of Sampling::order, as ranked_sampler.h defines them.
  /// 4. Distribution::quantized of the raw weights that are left.
  /// Throws Error when a logit is NaN or +infinity before or after penalties, when no logit is finite, or when the
  /// temperature is not finite.
  void read(std::span<const float> logits, const Sampling& sampling, const History& history, Distribution& result,
            const TokenSet* allowed = nullptr);

  /// Returns a distribution to read into. It reuses the storage of one that was given back, if there is any.
  Distribution blank();
  /// Takes back these distributions for reuse, but those of one token, and leaves `read` empty.
  void give_back(std::vector<Distribution>& read);

  /// Bytes that reading a row takes: the row with biases, constraint and penalties, its fixed-point weights, and two
  /// distributions.
  static std::uint64_t bytes(int vocabulary) noexcept {
    return 2 * sizeof(float) * static_cast<std::uint64_t>(vocabulary) + 2 * Distribution::bytes_for(vocabulary);
  }

 private:
  void apply_truncation(const Truncation& truncation, const BlockedRow& row);

  std::vector<float> changed_;  // the row with biases, constraint and penalties
  std::vector<float> best_of_blocks_;
  std::vector<float> best_blocks_;  // the same values, partially sorted for top-k
  FixedPointWeights raw_of_best_;
  FixedPointWeights raw_;
  TruncationFinder truncation_finder_;
  RankedSampler ranked_sampler_;
  std::vector<Distribution> blanks_;
};

/// Computes the distribution of a single row with a temporary Sampler.
Distribution compute_distribution(std::span<const float> logits, const Sampling& sampling, const History& history);
Distribution compute_distribution(std::span<const float> logits, const Sampling& sampling, const History& history,
                                  const TokenSet* allowed);

}  // namespace draftproof
