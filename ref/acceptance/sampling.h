// SPDX-License-Identifier: MIT
// From a row of logits to a distribution. Order: penalties, temperature, top-k, top-p, min-p. One total order breaks
// every tie: larger value first, then smaller token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ref/acceptance/truncation.h"
#include "ref/acceptance/distribution.h"
#include "ref/base/token.h"

namespace draftproof {

struct Sampling {
  float temperature = 0;          // 0 and below: the point distribution on the best token
  int top_k = 0;                  // 0 and below, or at least the vocabulary: off
  float top_p = 1;                // outside (0, 1): off
  float min_p = 0;                // outside (0, 1]: off
  float repeat_penalty = 1;       // 0 and below, or 1: off
  float presence_penalty = 0;     // 0: off
  float frequency_penalty = 0;    // 0: off
  int repeat_last_n = 64;         // tokens of prompt and output that penalties see; below 0: all; 0: off

  bool operator==(const Sampling&) const = default;

  bool greedy() const noexcept { return temperature <= 0; }
  bool penalizes() const noexcept {
    return repeat_last_n != 0 && (repeats() || presence_penalty != 0 || frequency_penalty != 0);
  }
  bool repeats() const noexcept { return repeat_penalty > 0 && repeat_penalty != 1; }
};

/// The text a row continues: what is committed, then the drafted prefix of that row.
struct History {
  std::span<const Token> committed;
  std::span<const Token> drafted;
};

/// Reads rows of logits as distributions. Owns the memory that takes, so that from the second row on none is allocated.
class Sampler {
 public:
  /// One row. Penalties, for each distinct token of the last `repeat_last_n` of the history, with count c:
  /// z = (z < 0 ? z * repeat : z / repeat) - presence, then z = z - frequency * c. Greedy: the point on the best z.
  /// Else e = exp((z - best) / temperature) in float, share = floor(e * 2^40); top-k by z; top-p keeps while the sum of
  /// the shares before, in order, is < top_p * (sum of shares); min-p drops shares < min_p * (largest share), both
  /// products in double. Then Distribution::quantized. A NaN or +infinity, before or after penalties, no finite logit
  /// at all, or a temperature that is not finite throws Error. Tokens of the history beyond the row are passed over.
  void read(std::span<const float> logits, const Sampling& sampling, const History& history, Distribution& result);

  /// A distribution to read into, in the memory of one that was given back.
  Distribution blank();
  void give_back(std::vector<Distribution>& read);  // and leaves none

  /// Bytes that reading a row takes: the row with penalties, its fixed-point weights, and two distributions.
  static std::uint64_t bytes(int vocabulary) noexcept {
    return 2 * sizeof(float) * static_cast<std::uint64_t>(vocabulary) + 2 * Distribution::bytes_for(vocabulary);
  }

 private:
  void apply_truncation(const Truncation& cut, const BlockedRow& row);

  std::vector<float> penalized_;
  std::vector<float> best_of_blocks_;
  std::vector<float> best_blocks_;  // the same, being put in order
  FixedPointWeights shares_of_best_;
  FixedPointWeights shares_;
  TruncationFinder cuts_;
  std::vector<Distribution> blanks_;
};

/// One row, for who reads only one.
Distribution distribution_of(std::span<const float> logits, const Sampling& sampling, const History& history);

}  // namespace draftproof
