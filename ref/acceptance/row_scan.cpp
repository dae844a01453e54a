// SPDX-License-Identifier: MIT
#include "ref/acceptance/row_scan.h"

#include <algorithm>
#include <limits>

#include "kernels/exp.h"

// The same loops, compiled for each width of vectors a CPU may have; of equal bits, since nothing is contracted.
#if defined(__x86_64__)
#define DRAFTPROOF_FOR_EACH_WIDTH __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define DRAFTPROOF_FOR_EACH_WIDTH
#endif

namespace draftproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// floor(share) as high * 2^16 + low, of 24 and 16 bits: whole numbers that 32 bits hold.
struct Halves {
  std::int32_t high;
  std::int32_t low;
};
inline Halves halves_of(float share) {
  const std::int32_t high = static_cast<std::int32_t>(share * 0x1p-16f);
  return {high, static_cast<std::int32_t>(share - static_cast<float>(high) * 0x1p+16f)};
}

/// The floor of it is that of exponential(x) * 2^40, for x <= 0: down to -64 powers of 2 only move the exponent, and
/// there and below both floors are 0.
inline float exponential_times_2_to_40(float x) {
  float shifted;
  const float y = exponential_over_power(at_least(-64.0f, x), shifted);
  const std::uint32_t n = __builtin_bit_cast(std::uint32_t, shifted) - 0x4b400000;
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, y) + ((n + 40) << 23));
}

inline std::int32_t bucket_of(const BucketScale& ruler, float z) {
  const float at = (ruler.best - z) * ruler.scale;
  const float end = static_cast<float>(ruler.last);
  return static_cast<std::int32_t>(at < end ? at : end);
}

/// The order of floats as an order of integers; NaNs lie outside the infinities.
inline std::int32_t ordered(float value) {
  const std::int32_t bits = __builtin_bit_cast(std::int32_t, value);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline float from_ordered(std::int32_t order) {
  return __builtin_bit_cast(float, order ^ ((order >> 31) & 0x7fffffff));
}

/// floor(share * reciprocal / 2^51). A share is m * 2^e, m < 2^24; with reciprocal = h * 2^32 + l,
/// m * h + (m * l >> 32) is below 2^56 and is floor(m * reciprocal / 2^32), and a floor of a floor by powers of 2 is
/// one floor. The share 0 reads as 2^-127, which shifts everything out.
inline std::uint64_t weight_of(float share, std::uint32_t reciprocal_high, std::uint32_t reciprocal_low) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, share);
  const std::uint32_t m = (bits & 0x7fffff) | 0x800000;
  const std::uint32_t right = 127 + 23 + 19 - (bits >> 23);  // 2^51 / 2^32 / 2^e; at least 2
  const std::uint64_t product = std::uint64_t{m} * reciprocal_high + (std::uint64_t{m} * reciprocal_low >> 32);
  return product >> (right < 63 ? right : 63);
}

}  // namespace

BlockedRow::BlockedRow(std::span<const float> z)
    : z_(z.data()), whole_(z.size() / token_block_size), blocks_((z.size() + token_block_size - 1) / token_block_size) {
  last_.fill(-infinity);
  std::copy(z.begin() + static_cast<std::ptrdiff_t>(whole_ * token_block_size), z.end(), last_.begin());
}

DRAFTPROOF_FOR_EACH_WIDTH
bool find_best_of_blocks(const BlockedRow& row, float* best) noexcept {
  std::int32_t unusable = 0;
  for (std::size_t b = 0; b < row.blocks(); ++b) {
    const float* z = row.block(b);
    // As integers, which a compiler may take in any order.
    std::int32_t largest = ordered(-infinity);
    for (std::size_t i = 0; i < token_block_size; ++i) {
      const std::int32_t value = ordered(z[i]);
      largest = value > largest ? value : largest;
      unusable |= !(z[i] < infinity);
    }
    best[b] = from_ordered(largest);
  }
  return unusable == 0;
}

DRAFTPROOF_FOR_EACH_WIDTH
std::uint64_t find_weights_2_40(const BlockedRow& row, TokenBlocks blocks, float best, float temperature, float* shares) noexcept {
  std::uint64_t sum = 0;
  for (const std::uint32_t b : blocks) {
    const float* __restrict z = row.block(b);
    float* __restrict share = shares + std::size_t{b} * token_block_size;
    std::int32_t highs = 0;  // at most 64 * 2^24
    std::int32_t lows = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) {
      const auto [high, low] = halves_of(exponential_times_2_to_40((z[i] - best) / temperature));
      highs += high;
      lows += low;
      share[i] = static_cast<float>(high) * 0x1p+16f + static_cast<float>(low);
    }
    sum += (static_cast<std::uint64_t>(highs) << 16) + static_cast<std::uint64_t>(lows);
  }
  return sum;
}

DRAFTPROOF_FOR_EACH_WIDTH
std::uint64_t keep_shares(const BlockedRow& row, TokenBlocks blocks, float threshold, float least, float* shares) noexcept {
  std::uint64_t sum = 0;
  for (const std::uint32_t b : blocks) {
    const float* __restrict z = row.block(b);
    float* __restrict share = shares + std::size_t{b} * token_block_size;
    std::int32_t highs = 0;  // at most 64 * 2^24
    std::int32_t lows = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) {
      const float good = z[i] >= threshold ? share[i] : 0.0f;
      const float kept = good >= least ? good : 0.0f;
      const auto [high, low] = halves_of(kept);
      highs += high;
      lows += low;
      share[i] = kept;
    }
    sum += (static_cast<std::uint64_t>(highs) << 16) + static_cast<std::uint64_t>(lows);
  }
  return sum;
}

DRAFTPROOF_FOR_EACH_WIDTH
std::size_t find_block_with(TokenBlocks blocks, float share, const float* shares) noexcept {
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    const float* block = shares + std::size_t{blocks[n]} * token_block_size;
    std::int32_t found = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) found |= block[i] == share;
    if (found != 0) return n;
  }
  return blocks.size();
}

DRAFTPROOF_FOR_EACH_WIDTH
void add_to_buckets(const BlockedRow& row, TokenBlocks blocks, const BucketScale& ruler, CountBy amount, const float* shares,
                    std::uint64_t* buckets) noexcept {
  for (const std::uint32_t b : blocks) {
    const float* z = row.block(b);
    const float* share = shares + std::size_t{b} * token_block_size;
    std::int32_t bucket[token_block_size];
    std::uint64_t counts_for[token_block_size];
    for (std::size_t i = 0; i < token_block_size; ++i) bucket[i] = bucket_of(ruler, z[i]);
    if (amount == CountBy::token) {
      for (std::size_t i = 0; i < token_block_size; ++i) counts_for[i] = share[i] > 0;
    } else {
      for (std::size_t i = 0; i < token_block_size; ++i) {
        const auto [high, low] = halves_of(share[i]);
        counts_for[i] = (static_cast<std::uint64_t>(high) << 16) + static_cast<std::uint64_t>(low);
      }
    }
    for (std::size_t i = 0; i < token_block_size; ++i) buckets[bucket[i]] += counts_for[i];
  }
}

DRAFTPROOF_FOR_EACH_WIDTH
std::size_t find_in_bucket(const BlockedRow& row, TokenBlocks blocks, const BucketScale& ruler, std::int32_t bucket,
                           const float* shares, Token* tokens) noexcept {
  std::size_t count = 0;
  for (const std::uint32_t b : blocks) {
    const float* z = row.block(b);
    const float* share = shares + std::size_t{b} * token_block_size;
    std::int32_t in_it[token_block_size];
    std::int32_t found = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) {
      in_it[i] = bucket_of(ruler, z[i]) == bucket && share[i] > 0;
      found += in_it[i];
    }
    for (std::size_t i = 0; found > 0 && i < token_block_size; ++i) {
      tokens[count] = static_cast<Token>(b * token_block_size + i);
      count += static_cast<std::size_t>(in_it[i]);
    }
  }
  return count;
}

DRAFTPROOF_FOR_EACH_WIDTH
WeightSum find_weights(TokenBlocks blocks, const float* shares, std::uint64_t reciprocal, std::uint32_t* found,
                       std::uint64_t* sums, std::uint64_t* weights) noexcept {
  const std::uint32_t high = static_cast<std::uint32_t>(reciprocal >> 32);
  const std::uint32_t low = static_cast<std::uint32_t>(reciprocal);
  WeightSum result = {0, 0};
  for (const std::uint32_t b : blocks) {
    const float* __restrict share = shares + std::size_t{b} * token_block_size;
    std::uint64_t* __restrict weight = weights + result.blocks * token_block_size;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) {
      weight[i] = weight_of(share[i], high, low);
      sum += weight[i];
    }
    found[result.blocks] = b;
    sums[result.blocks] = sum;
    result.blocks += sum > 0;
    result.sum += sum;
  }
  return result;
}

DRAFTPROOF_FOR_EACH_WIDTH
std::uint64_t sum_of_difference(const std::uint64_t* p, const std::uint64_t* q) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < token_block_size; ++i) sum += p[i] > q[i] ? p[i] - q[i] : 0;
  return sum;
}

}  // namespace draftproof
