// SPDX-License-Identifier: MIT
// What a request says about how tokens are drawn. Reading a row by it is sampler.h.
#pragma once

#include <vector>

#include "ref/base/token.h"

namespace draftproof {

/// Is added to the logit of a token; those of tokens beyond a row are ignored.
struct LogitBias {
  Token token = 0;
  float bias = 0;

  bool operator==(const LogitBias&) const = default;
};

struct Sampling {
  float temperature = 0;          // 0 and below: the point distribution on the best token
  int top_k = 0;                  // 0 and below, or at least the vocabulary: off
  float top_p = 1;                // outside (0, 1): off
  float min_p = 0;                // outside (0, 1]: off
  float repeat_penalty = 1;       // 0 and below, or 1: off
  float presence_penalty = 0;     // 0: off
  float frequency_penalty = 0;    // 0: off
  int repeat_last_n = 64;         // tokens of prompt and output that penalties see; below 0: all; 0: off
  std::vector<LogitBias> logit_bias = {};

  bool operator==(const Sampling&) const = default;

  bool greedy() const noexcept { return temperature <= 0; }
  bool penalizes() const noexcept {
    return repeat_last_n != 0 && (repeats() || presence_penalty != 0 || frequency_penalty != 0);
  }
  bool repeats() const noexcept { return repeat_penalty > 0 && repeat_penalty != 1; }
};

}  // namespace draftproof
