// SPDX-License-Identifier: MIT
#include "ref/acceptance/row_scan.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

#include "kernels/exp.h"
#include "kernels/threads.h"
#include "kernels/widths.h"

namespace draftproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// What a token block costs, in multiplications: one that is read from memory, and one of exponentials.
constexpr double scan_work = 8.0 * token_block_size;
constexpr double exponential_work = 20.0 * token_block_size;

/// A loop that keeps something for each of its parts has few of them.
constexpr std::size_t few_parts = 8;
constexpr std::size_t blocks_of_part_min = 256;

/// floor(weight) as high * 2^16 + low: integers of 24 and 16 bits, so that 32-bit lanes can add them up.
struct Halves {
  std::int32_t high;
  std::int32_t low;
};
inline Halves halves_of(float weight) {
  const std::int32_t high = static_cast<std::int32_t>(weight * 0x1p-16f);
  return {high, static_cast<std::int32_t>(weight - static_cast<float>(high) * 0x1p+16f)};
}

/// Has the same floor as exponential(x) * 2^40, for x <= 0: above -64 the factor 2^40 only changes the exponent, and at
/// -64 and below both floors are 0.
inline float exponential_times_2_to_40(float x) {
  float shifted;
  const float y = exponential_over_power(at_least(-64.0f, x), shifted);
  const std::uint32_t n = __builtin_bit_cast(std::uint32_t, shifted) - 0x4b400000;
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, y) + ((n + 40) << 23));
}

inline std::int32_t bucket_of(const BucketScale& scale, float z) {
  const float at = (scale.best - z) * scale.buckets_per_logit;
  const float end = static_cast<float>(scale.last);
  return static_cast<std::int32_t>(at < end ? at : end);
}

/// Maps floats to integers of the same order; NaNs lie outside the infinities.
inline std::int32_t ordered(float value) {
  const std::int32_t bits = __builtin_bit_cast(std::int32_t, value);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline float from_ordered(std::int32_t order) {
  return __builtin_bit_cast(float, order ^ ((order >> 31) & 0x7fffffff));
}

/// Returns floor(raw * reciprocal / 2^51). Let raw = m * 2^e with m < 2^24 and reciprocal = h * 2^32 + l. Then
/// m * h + (m * l >> 32) is below 2^56 and equals floor(m * reciprocal / 2^32); taking floors by powers of 2 twice
/// equals taking one floor. raw = 0 is read as 2^-127, which shifts every bit out.
inline std::uint64_t weight_of(float raw, std::uint32_t reciprocal_high, std::uint32_t reciprocal_low) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, raw);
  const std::uint32_t m = (bits & 0x7fffff) | 0x800000;
  const std::uint32_t right = 127 + 23 + 19 - (bits >> 23);  // 2^51 / 2^32 / 2^e; at min_weight 2
  const std::uint64_t product = std::uint64_t{m} * reciprocal_high + (std::uint64_t{m} * reciprocal_low >> 32);
  return product >> (right < 63 ? right : 63);
}

DRAFTPROOF_FOR_EACH_WIDTH
bool find_best(const BlockedRow& row, std::size_t begin, std::size_t end, float* best) noexcept {
  std::int32_t unusable = 0;
  for (std::size_t b = begin; b < end; ++b) {
    const float* z = row.block(b);
    // Compared as integers: a compiler may reorder a maximum of integers, and so vectorize it.
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
std::uint64_t find_some_raw_weights(const BlockedRow& row, TokenBlocks blocks, float best, float temperature,
                                    float* raw_weights) noexcept {
  std::uint64_t sum = 0;
  for (const std::uint32_t b : blocks) {
    const float* __restrict z = row.block(b);
    float* __restrict raw = raw_weights + std::size_t{b} * token_block_size;
    std::int32_t highs = 0;  // at most 64 * 2^24
    std::int32_t lows = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) {
      const auto [high, low] = halves_of(exponential_times_2_to_40((z[i] - best) / temperature));
      highs += high;
      lows += low;
      raw[i] = static_cast<float>(high) * 0x1p+16f + static_cast<float>(low);
    }
    sum += (static_cast<std::uint64_t>(highs) << 16) + static_cast<std::uint64_t>(lows);
  }
  return sum;
}

DRAFTPROOF_FOR_EACH_WIDTH
std::uint64_t truncate_some_raw_weights(const BlockedRow& row, TokenBlocks blocks, float threshold, float min_weight,
                                        float* raw_weights) noexcept {
  std::uint64_t sum = 0;
  for (const std::uint32_t b : blocks) {
    const float* __restrict z = row.block(b);
    float* __restrict raw = raw_weights + std::size_t{b} * token_block_size;
    std::int32_t highs = 0;  // at most 64 * 2^24
    std::int32_t lows = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) {
      const float good = z[i] >= threshold ? raw[i] : 0.0f;
      const float kept = good >= min_weight ? good : 0.0f;
      const auto [high, low] = halves_of(kept);
      highs += high;
      lows += low;
      raw[i] = kept;
    }
    sum += (static_cast<std::uint64_t>(highs) << 16) + static_cast<std::uint64_t>(lows);
  }
  return sum;
}

DRAFTPROOF_FOR_EACH_WIDTH
void add_some_to_buckets(const BlockedRow& row, TokenBlocks blocks, const BucketScale& scale, CountBy count_by,
                         const float* raw_weights, std::uint64_t* counts_of_buckets) noexcept {
  for (const std::uint32_t b : blocks) {
    const float* z = row.block(b);
    const float* raw = raw_weights + std::size_t{b} * token_block_size;
    std::int32_t bucket[token_block_size];
    std::uint64_t counts[token_block_size];
    for (std::size_t i = 0; i < token_block_size; ++i) bucket[i] = bucket_of(scale, z[i]);
    if (count_by == CountBy::token) {
      for (std::size_t i = 0; i < token_block_size; ++i) counts[i] = raw[i] > 0;
    } else {
      for (std::size_t i = 0; i < token_block_size; ++i) {
        const auto [high, low] = halves_of(raw[i]);
        counts[i] = (static_cast<std::uint64_t>(high) << 16) + static_cast<std::uint64_t>(low);
      }
    }
    for (std::size_t i = 0; i < token_block_size; ++i) counts_of_buckets[bucket[i]] += counts[i];
  }
}

DRAFTPROOF_FOR_EACH_WIDTH
std::size_t find_some_in_bucket(const BlockedRow& row, TokenBlocks blocks, const BucketScale& scale,
                                std::int32_t bucket, const float* raw_weights, Token* tokens) noexcept {
  std::size_t count = 0;
  for (const std::uint32_t b : blocks) {
    const float* z = row.block(b);
    const float* raw = raw_weights + std::size_t{b} * token_block_size;
    std::int32_t in_bucket[token_block_size];
    std::int32_t found = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) {
      in_bucket[i] = bucket_of(scale, z[i]) == bucket && raw[i] > 0;
      found += in_bucket[i];
    }
    for (std::size_t i = 0; found > 0 && i < token_block_size; ++i) {
      tokens[count] = static_cast<Token>(b * token_block_size + i);
      count += static_cast<std::size_t>(in_bucket[i]);
    }
  }
  return count;
}

DRAFTPROOF_FOR_EACH_WIDTH
void normalize_some_raw_weights(TokenBlocks blocks, const float* raw_weights, std::uint64_t reciprocal,
                                std::uint64_t* sums, std::uint64_t* weights) noexcept {
  const std::uint32_t high = static_cast<std::uint32_t>(reciprocal >> 32);
  const std::uint32_t low = static_cast<std::uint32_t>(reciprocal);
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    const float* __restrict raw = raw_weights + std::size_t{blocks[n]} * token_block_size;
    std::uint64_t* __restrict weight = weights + n * token_block_size;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) {
      weight[i] = weight_of(raw[i], high, low);
      sum += weight[i];
    }
    sums[n] = sum;
  }
}

/// Calls body(begin, end) over parts of `count` token blocks, each of which costs about as much as `work`
/// multiplications.
template <class Function>
void in_parts(std::size_t count, double work, const Function& body) {
  const int blocks = static_cast<int>(count);
  parallel_ranges(blocks, work * blocks, blocks, [&](int begin, int end, int) {
    body(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  });
}

/// Calls body(part, some, place) over at most few_parts parts of `blocks`; `place` is where the part begins.
template <class Function>
void in_few_parts(TokenBlocks blocks, double work, const Function& body) {
  const std::size_t parts = std::clamp<std::size_t>(blocks.size() / blocks_of_part_min, 1, few_parts);
  const int count = static_cast<int>(parts);
  const auto begin_of = [&](std::size_t part) { return blocks.size() * part / parts; };
  parallel_ranges(count, work * static_cast<double>(blocks.size()), count, [&](int begin, int end, int) {
    for (auto part = static_cast<std::size_t>(begin); part < static_cast<std::size_t>(end); ++part) {
      body(part, blocks.subspan(begin_of(part), begin_of(part + 1) - begin_of(part)), begin_of(part));
    }
  });
}

/// Returns the sum of what `sum_of` returns for parts of `blocks`. Sums of integers do not depend on their order.
template <class Function>
std::uint64_t sum_of_parts(TokenBlocks blocks, double work, const Function& sum_of) {
  std::atomic<std::uint64_t> sum{0};
  in_parts(blocks.size(), work, [&](std::size_t begin, std::size_t end) {
    sum.fetch_add(sum_of(blocks.subspan(begin, end - begin)), std::memory_order_relaxed);
  });
  return sum;
}

}  // namespace

BlockedRow::BlockedRow(std::span<const float> z)
    : z_(z.data()), whole_(z.size() / token_block_size), blocks_((z.size() + token_block_size - 1) / token_block_size) {
  last_.fill(-infinity);
  std::copy(z.begin() + static_cast<std::ptrdiff_t>(whole_ * token_block_size), z.end(), last_.begin());
}

bool find_best_of_blocks(const BlockedRow& row, float* best) noexcept {
  std::atomic<bool> usable{true};
  in_parts(row.blocks(), scan_work, [&](std::size_t begin, std::size_t end) {
    if (!find_best(row, begin, end, best)) usable.store(false, std::memory_order_relaxed);
  });
  return usable;
}

std::uint64_t find_raw_weights(const BlockedRow& row, TokenBlocks blocks, float best, float temperature,
                               float* raw_weights) noexcept {
  return sum_of_parts(blocks, exponential_work, [&](TokenBlocks some) {
    return find_some_raw_weights(row, some, best, temperature, raw_weights);
  });
}

std::uint64_t truncate_raw_weights(const BlockedRow& row, TokenBlocks blocks, float threshold, float min_weight,
                                   float* raw_weights) noexcept {
  return sum_of_parts(blocks, scan_work, [&](TokenBlocks some) {
    return truncate_some_raw_weights(row, some, threshold, min_weight, raw_weights);
  });
}

DRAFTPROOF_FOR_EACH_WIDTH
std::size_t find_block_with(TokenBlocks blocks, float weight, const float* raw_weights) noexcept {
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    const float* block = raw_weights + std::size_t{blocks[n]} * token_block_size;
    std::int32_t found = 0;
    for (std::size_t i = 0; i < token_block_size; ++i) found |= block[i] == weight;
    if (found != 0) return n;
  }
  return blocks.size();
}

void add_to_buckets(const BlockedRow& row, TokenBlocks blocks, const BucketScale& scale, CountBy count_by,
                    const float* raw_weights, std::array<std::uint64_t, buckets>& counts) noexcept {
  if (blocks.size() < 2 * blocks_of_part_min) {  // one part
    return add_some_to_buckets(row, blocks, scale, count_by, raw_weights, counts.data());
  }
  std::mutex adding;
  in_few_parts(blocks, exponential_work, [&](std::size_t, TokenBlocks some, std::size_t) {
    std::array<std::uint64_t, buckets> mine{};
    add_some_to_buckets(row, some, scale, count_by, raw_weights, mine.data());
    const std::lock_guard lock(adding);
    for (std::size_t i = 0; i < buckets; ++i) counts[i] += mine[i];
  });
}

std::size_t find_in_bucket(const BlockedRow& row, TokenBlocks blocks, const BucketScale& scale, std::int32_t bucket,
                           const float* raw_weights, Token* tokens) noexcept {
  std::array<std::size_t, few_parts> found{};
  std::array<Token*, few_parts> places{};
  in_few_parts(blocks, scan_work, [&](std::size_t part, TokenBlocks some, std::size_t place) {
    places[part] = tokens + place * token_block_size;
    found[part] = find_some_in_bucket(row, some, scale, bucket, raw_weights, places[part]);
  });
  Token* end = tokens;
  for (std::size_t part = 0; part < few_parts; ++part) {
    if (places[part] != end) std::copy_n(places[part], found[part], end);
    end += found[part];
  }
  return static_cast<std::size_t>(end - tokens);
}

WeightSum normalize_raw_weights(TokenBlocks blocks, const float* raw_weights, std::uint64_t reciprocal,
                                std::uint32_t* found, std::uint64_t* sums, std::uint64_t* weights) noexcept {
  in_few_parts(blocks, exponential_work, [&](std::size_t, TokenBlocks some, std::size_t place) {
    normalize_some_raw_weights(some, raw_weights, reciprocal, sums + place, weights + place * token_block_size);
  });
  WeightSum result = {0, 0};
  for (std::size_t n = 0; n < blocks.size(); ++n) {
    if (sums[n] == 0) continue;
    if (result.blocks < n) {
      std::copy_n(weights + n * token_block_size, token_block_size, weights + result.blocks * token_block_size);
    }
    found[result.blocks] = blocks[n];
    sums[result.blocks] = sums[n];
    result.sum += sums[n];
    ++result.blocks;
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
