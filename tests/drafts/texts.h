// SPDX-License-Identifier: MIT
// Texts for the tests of drafts that look things up in the text, and how their time grows with it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <vector>

#include "ref/base/token.h"

namespace draftproof {

using Text = std::vector<Token>;

/// `length` tokens below `vocabulary`, without order.
inline Text random_text(int length, std::uint32_t vocabulary, std::uint64_t seed = 1) {
  Text text;
  for (int i = 0; i < length; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    text.push_back(static_cast<Token>((seed >> 33) % vocabulary));
  }
  return text;
}

/// 0, 1, ... `period` - 1, over and over.
inline Text periodic_text(int length, int period) {
  Text text;
  for (int i = 0; i < length; ++i) text.push_back(i % period);
  return text;
}

/// Fails when `work` takes a time per token that grows with the text: what reads the whole text for every token needs
/// 64 times as much for the long one. The bound leaves room for caches that the long one's tables do not fit into. CPU
/// time, the least of several runs, because test machines are shared.
inline void expect_time_per_token_not_to_grow(const char* name, const std::function<Text(int length)>& text_of,
                                              const std::function<void(const Text& text)>& work) {
  const auto microseconds_per_token = [&](const Text& text) {
    double min = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 3; ++run) {
      const std::clock_t begin = std::clock();
      work(text);
      const auto ticks = static_cast<double>(std::clock() - begin);
      min = std::min(min, ticks * 1e6 / CLOCKS_PER_SEC / static_cast<double>(text.size()));
    }
    return min;
  };
  const double shorter = microseconds_per_token(text_of(4 << 10));
  const double longer = microseconds_per_token(text_of(256 << 10));
  EXPECT_LT(longer, 16 * shorter + 0.5) << name << ": " << shorter << " and " << longer << " us per token";
}

}  // namespace draftproof
