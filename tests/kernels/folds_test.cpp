// SPDX-License-Identifier: MIT
// The folds of Mamba layers against loops over single elements, in place and into other memory, with and without sums.
#include "kernels/folds.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/support.h"

namespace draftproof::test::folds_test {
namespace {

TEST(Folds, OfAHeadHaveTheBitsOfSingleElements) {
  Numbers numbers(5);
  for (const int dims : {1, 3, 4, 8, 15, 16, 17, 64, 100}) {
    const int states = 1 + numbers.below(20);
    const auto floats = [&](int count) { return numbers.numbers(static_cast<std::size_t>(count)); };
    const std::vector<float> old = floats(states * dims), keys = floats(states), values = floats(dims),
                             queries = floats(states);
    std::vector<float> state(old.size()), sums(values.size(), 0);
    for (int n = 0; n < states; ++n) {
      for (int p = 0; p < dims; ++p) {
        const auto at = static_cast<std::size_t>(n * dims + p);
        const auto s = static_cast<std::size_t>(n), d = static_cast<std::size_t>(p);
        state[at] = old[at] * 0.7F + keys[s] * values[d];
        sums[d] += queries[s] * state[at];
      }
    }
    std::vector<float> got(old.size()), in_place = old, got_sums(values.size(), 9);
    fold_head(states, dims, 0.7F, keys.data(), values.data(), queries.data(), old.data(), got.data(), got_sums.data());
    fold_head(states, dims, 0.7F, keys.data(), values.data(), nullptr, in_place.data(), in_place.data(), nullptr);
    EXPECT_TRUE(same_bits(got, state)) << dims;
    EXPECT_TRUE(same_bits(got_sums, sums)) << dims;
    EXPECT_TRUE(same_bits(in_place, state)) << dims;
  }
}

TEST(Folds, OfChannelsHaveTheBitsOfSingleElements) {
  Numbers numbers(6);
  for (const int count : {1, 3, 8, 15, 16, 17, 64, 255, 256}) {
    const auto size = static_cast<std::size_t>(count);
    const std::vector<float> old = numbers.numbers(size), decays = numbers.numbers(size),
                             values = numbers.numbers(size);
    std::vector<float> state(size), sums = numbers.numbers(size), got(size), in_place = old, got_sums = sums;
    for (std::size_t c = 0; c < size; ++c) {
      state[c] = old[c] * decays[c] + 0.3F * values[c];
      sums[c] += 1.7F * state[c];
    }
    fold_channels(count, decays.data(), 0.3F, values.data(), 1.7F, old.data(), got.data(), got_sums.data());
    fold_channels(count, decays.data(), 0.3F, values.data(), 0, in_place.data(), in_place.data(), nullptr);
    EXPECT_TRUE(same_bits(got, state)) << count;
    EXPECT_TRUE(same_bits(got_sums, sums)) << count;
    EXPECT_TRUE(same_bits(in_place, state)) << count;
  }
}

}  // namespace
}  // namespace draftproof::test::folds_test
