// SPDX-License-Identifier: MIT
// Turns a row of logits into a distribution. Order of the steps: logit bias, constraint, penalties, temperature, top-k,
// top-p, min-p. One total order breaks every tie: larger logit first, then smaller token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ref/acceptance/distribution.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/acceptance/token_set.h"
#include "ref/acceptance/truncation.h"
#include "ref/base/token.h"

namespace draftproof {

/// The text that a row of logits continues: the committed tokens, then the draft tokens before that row.
struct History {
  std::span<const Token> committed;
  std::span<const Token> drafted;
};

/// Turns rows of logits into distributions. Owns the scratch memory, so nothing is allocated from the second row on.
class Sampler {
 public:
  /// Computes the distribution of one row:
  /// 1. The biases are added, and the logits of tokens that are not `allowed` become -infinity; nullptr: all are.
  /// 2. Penalties, for each distinct token among the last `repeat_last_n` tokens of the history, with count c:
  ///    z = (z < 0 ? z * repeat : z / repeat) - presence, then z = z - frequency * c. Tokens of the history beyond the
  ///    row are ignored.
  /// 3. Greedy: the point distribution on the best z, and done. Otherwise e = exp((z - best) / temperature) in float
  ///    and raw weight = floor(e * 2^40).
  /// 4. top-k by z; top-p keeps a token while the sum of the raw weights before it, in order, is < top_p * (sum of raw
  ///    weights); min-p removes raw weights < min_p * (largest raw weight). Both products are in double.
  /// 5. Distribution::quantized.
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
  std::vector<Distribution> blanks_;
};

/// Computes the distribution of a single row with a temporary Sampler.
Distribution compute_distribution(std::span<const float> logits, const Sampling& sampling, const History& history);
Distribution compute_distribution(std::span<const float> logits, const Sampling& sampling, const History& history,
                                  const TokenSet* allowed);

}  // namespace draftproof
