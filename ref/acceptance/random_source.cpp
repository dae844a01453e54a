// SPDX-License-Identifier: MIT
#include "ref/acceptance/random_source.h"

#include "ref/acceptance/uniform.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

using Wide = unsigned __int128;

// The constants of Philox4x32: two odd multipliers, and the Weyl steps of the key (golden ratio, sqrt(3) - 1).
constexpr std::uint64_t multiplier_0 = 0xD2511F53;
constexpr std::uint64_t multiplier_1 = 0xCD9E8D57;
constexpr std::uint32_t step_0 = 0x9E3779B9;
constexpr std::uint32_t step_1 = 0xBB67AE85;

}  // namespace

const char* name_of(Purpose purpose) noexcept {
  switch (purpose) {
    case Purpose::target: return "target";
    case Purpose::draft: return "draft";
    case Purpose::accept: return "accept";
    case Purpose::residual: return "residual";
  }
  return "unknown";
}

Philox philox4x32_10(const std::uint32_t counter[4], const std::uint32_t key[2]) noexcept {
  Philox x{{counter[0], counter[1], counter[2], counter[3]}};
  std::uint32_t key_0 = key[0];
  std::uint32_t key_1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product_0 = multiplier_0 * x.words[0];
    const std::uint64_t product_1 = multiplier_1 * x.words[2];
    x = {{static_cast<std::uint32_t>(product_1 >> 32) ^ x.words[1] ^ key_0, static_cast<std::uint32_t>(product_1),
          static_cast<std::uint32_t>(product_0 >> 32) ^ x.words[3] ^ key_1, static_cast<std::uint32_t>(product_0)}};
    key_0 += step_0;
    key_1 += step_1;
  }
  return x;
}

std::uint64_t PhiloxSource::below(const Key& key, std::uint64_t bound) const noexcept {
  REQUIRE(bound >= 1, "there is an integer below the bound");
  const std::uint32_t seed[2] = {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)};
  const auto purpose_and_depth = static_cast<std::uint32_t>(key.purpose) + 4 * static_cast<std::uint32_t>(key.depth);
  const auto word = [&](unsigned retry) {
    const std::uint32_t counter[4] = {static_cast<std::uint32_t>(key.position),
                                      static_cast<std::uint32_t>(key.sequence), purpose_and_depth, retry};
    const Philox x = philox4x32_10(counter, seed);
    return std::uint64_t{x.words[0]} << 32 | x.words[1];
  };
  return uniform_below<std::uint64_t, Wide>(bound, word);
}

std::size_t PhiloxSource::sample_index(const Key& key, std::span<const std::uint64_t> weights) {
  // The 32-bit halves are summed separately: this vectorizes, and no sum overflows for a whole vocabulary of weights.
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  for (const std::uint64_t weight : weights) {
    low += weight & 0xffffffff;
    high += weight >> 32;
  }
  const Wide sum = (Wide{high} << 32) + low;
  REQUIRE(sum > 0 && sum <= UINT64_MAX, "some weight is positive and their sum fits 64 bits");
  std::uint64_t rest = below(key, static_cast<std::uint64_t>(sum));
  // Finds the index: first in strides, then step by step.
  std::size_t index = 0;
  for (constexpr std::size_t stride = 1024; weights.size() - index > stride; index += stride) {
    std::uint64_t sum_of_stride = 0;
    for (const std::uint64_t weight : weights.subspan(index, stride)) sum_of_stride += weight;
    if (rest < sum_of_stride) break;
    rest -= sum_of_stride;
  }
  while (rest >= weights[index]) rest -= weights[index++];
  return index;
}

}  // namespace draftproof
