// SPDX-License-Identifier: MIT
#include "ref/acceptance/random_source.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "ref/acceptance/uniform.h"
#include "tests/acceptance/numbers.h"

namespace draftproof::random_source_test {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words philox(const Words& counter, const std::array<std::uint32_t, 2>& key) {
  const Philox x = philox4x32_10(counter.data(), key.data());
  return {x.words[0], x.words[1], x.words[2], x.words[3]};
}

TEST(Philox, EqualsThePublishedTestVectors) {
  // kat_vectors of Random123, "philox4x32 10".
  constexpr std::uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Feeds every word to uniform_below once; counts[r] = words that give r, counts[bound] = rejected words.
template <class Word, class Wide>
std::vector<long> counts_below(Word bound) {
  std::vector<long> counts(std::size_t{bound} + 1, 0);
  constexpr long words = long{std::numeric_limits<Word>::max()} + 1;
  for (long first = 0; first < words; ++first) {
    bool again = false;
    const Word result = uniform_below<Word, Wide>(bound, [&](unsigned retry) {
      again = again || retry > 0;
      return retry == 0 ? static_cast<Word>(first) : static_cast<Word>(words - 1);  // the last word is never rejected
    });
    ++counts[again ? bound : result];
  }
  return counts;
}

TEST(Uniform, EveryResultBelowEveryEightBitBoundHasEquallyManyWords) {
  for (int bound = 1; bound <= 255; ++bound) {
    const auto counts = counts_below<std::uint8_t, std::uint16_t>(static_cast<std::uint8_t>(bound));
    for (int result = 0; result < bound; ++result) ASSERT_EQ(counts[result], 256 / bound);
    ASSERT_EQ(counts.back(), 256 % bound);
  }
}

TEST(Uniform, EveryResultBelowSixteenBitBoundsHasEquallyManyWords) {
  for (const int bound : {1, 2, 3, 7, 255, 256, 257, 1000, 32767, 32768, 32769, 43690, 65534, 65535}) {
    const auto counts = counts_below<std::uint16_t, std::uint32_t>(static_cast<std::uint16_t>(bound));
    for (int result = 0; result < bound; ++result) ASSERT_EQ(counts[result], 65536 / bound);
    ASSERT_EQ(counts.back(), 65536 % bound);
  }
}

TEST(PhiloxSource, UsesPositionSequencePurposeAndRetryAsTheCounter) {
  const PhiloxSource random(0x299f31d0a4093822);
  const Key key = {0x05a308d3, 0x243f6a88, Purpose::residual};
  const Words words = philox({0x243f6a88, 0x05a308d3, 3, 0}, {0xa4093822, 0x299f31d0});
  EXPECT_EQ(random.below(key, std::uint64_t{1} << 32), words[0]);
  EXPECT_EQ(random.below(key, std::uint64_t{1} << 52), (std::uint64_t{words[0]} << 32 | words[1]) >> 12);

  // Purpose and depth share a word.
  const Words deeper = philox({0x243f6a88, 0x05a308d3, 3 + 4 * 5, 0}, {0xa4093822, 0x299f31d0});
  EXPECT_EQ(random.below({0x05a308d3, 0x243f6a88, Purpose::residual, 5}, std::uint64_t{1} << 32), deeper[0]);

  // A bound just above half of all words rejects nearly half of them; the next word has retry 1, and so on.
  const std::uint64_t bound = (std::uint64_t{1} << 63) + 1;
  int retried = 0;
  for (std::int32_t position = 0; position < 100; ++position) {
    for (std::uint32_t retry = 0;; ++retry) {
      const Words at = philox({static_cast<std::uint32_t>(position), 0, 0, retry}, {0xa4093822, 0x299f31d0});
      const unsigned __int128 product = static_cast<unsigned __int128>(std::uint64_t{at[0]} << 32 | at[1]) * bound;
      if (static_cast<std::uint64_t>(product) < (0 - bound) % bound) continue;
      ASSERT_EQ(random.below({0, position, Purpose::target}, bound), static_cast<std::uint64_t>(product >> 64));
      retried += retry > 0;
      break;
    }
  }
  EXPECT_GT(retried, 30);
}

TEST(PhiloxSource, DifferentKeysAndSeedsGiveDifferentNumbers) {
  std::set<std::uint64_t> seen;
  std::size_t asked = 0;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    const PhiloxSource random(seed);
    for (std::int32_t sequence = 0; sequence < 4; ++sequence) {
      for (std::int32_t position = 0; position < 500; ++position) {
        for (const Purpose purpose : {Purpose::target, Purpose::draft, Purpose::accept, Purpose::residual}) {
          seen.insert(random.below({sequence, position, purpose}, ~std::uint64_t{0}));
          ++asked;
        }
        for (std::int32_t depth = 1; depth < 5; ++depth) {
          seen.insert(random.below({sequence, position, Purpose::draft, depth}, ~std::uint64_t{0}));
          ++asked;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), asked);
}

TEST(PhiloxSource, EqualKeysGiveEqualDrawsInAnyOrder) {
  const std::uint64_t weights[] = {5, 1, 7, 3};
  PhiloxSource forward(17);
  PhiloxSource backward(17);
  std::vector<std::size_t> answers;
  for (std::int32_t position = 0; position < 200; ++position)
    answers.push_back(forward.sample_index({1, position, Purpose::draft}, weights));
  for (std::int32_t position = 199; position >= 0; --position) {
    const Key key = {1, position, Purpose::draft};
    EXPECT_EQ(backward.sample_index(key, weights), answers[position]);
    EXPECT_EQ(backward.sample_index(key, weights), answers[position]);
  }
}

TEST(PhiloxSource, SampleIndexInvertsTheCumulativeSumAndNeverReturnsAZeroWeight) {
  const std::vector<std::uint64_t> weights = {0, 0, 3, 0, 1, 0, 5, 0};
  PhiloxSource random(23);
  std::set<std::size_t> seen;
  for (std::int32_t position = 0; position < 1000; ++position) {
    const Key key = {0, position, Purpose::target};
    const std::uint64_t number = random.below(key, 9);
    const std::size_t index = random.sample_index(key, weights);
    ASSERT_EQ(index, number < 3 ? 2u : number < 4 ? 4u : 6u);
    seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 3u);
}

TEST(PhiloxSource, SampleIndexInvertsTheCumulativeSumOfManyWeights) {
  Numbers numbers{31};
  PhiloxSource random(31);
  for (std::int32_t position = 0; position < 300; ++position) {
    std::vector<std::uint64_t> weights(numbers.one_of<std::size_t>({1, 1023, 1024, 1025, 2048, 2049, 9000}));
    const bool sparse = numbers.next() % 2 == 0;
    for (std::uint64_t& weight : weights) weight = sparse && numbers.next() % 500 > 0 ? 0 : numbers.next() >> 14;
    weights[numbers.next() % weights.size()] = 1;
    const Key key = {0, position, Purpose::target};
    std::uint64_t number = random.below(key, std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
    std::size_t expected = 0;
    while (number >= weights[expected]) number -= weights[expected++];
    ASSERT_EQ(random.sample_index(key, weights), expected);
  }
}

TEST(PhiloxSource, DrawsOfOneKeyWithSimilarWeightsUseOneUniformNumber) {
  // This makes a draft that shares the target's keys agree with it often.
  PhiloxSource random(29);
  const std::uint64_t p[] = {std::uint64_t{1} << 51, std::uint64_t{1} << 51};
  const std::uint64_t q[] = {(std::uint64_t{1} << 51) + 1000, (std::uint64_t{1} << 51) - 1000};
  for (std::int32_t position = 0; position < 2000; ++position) {
    const Key key = {0, position, Purpose::target};
    ASSERT_EQ(random.sample_index(key, p), random.sample_index(key, q));
  }
}

TEST(PhiloxSourceDeathTest, WeightsThatAreAllZeroOrTooLargeAbort) {
  PhiloxSource random(1);
  const std::uint64_t none[] = {0, 0};
  const std::uint64_t large[] = {~std::uint64_t{0}, 1};
  EXPECT_DEATH(random.sample_index({}, none), "some weight is positive");
  EXPECT_DEATH(random.sample_index({}, {}), "some weight is positive");
  EXPECT_DEATH(random.sample_index({}, large), "fits 64 bits");
  EXPECT_DEATH(random.below({}, 0), "below the bound");
}

TEST(Purpose, HasAName) {
  EXPECT_STREQ(name_of(Purpose::target), "target");
  EXPECT_STREQ(name_of(Purpose::draft), "draft");
  EXPECT_STREQ(name_of(Purpose::accept), "accept");
  EXPECT_STREQ(name_of(Purpose::residual), "residual");
}

}  // namespace
}  // namespace draftproof::random_source_test
