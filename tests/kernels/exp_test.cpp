// SPDX-License-Identifier: MIT
#include "kernels/exp.h"

#include "support.h"

namespace draftproof::test::exp_test {
namespace {

std::vector<const Kernels*> all_canonical() {
  std::vector<const Kernels*> tables = canonical_tables();
  tables.push_back(&scalar());
  return tables;
}

/// Returns |y - exp(x)| in units in the last place of the correct result; double exp is exact enough to count as
/// correct. Works on bits because it runs 2^32 times.
double error_in_ulp(float x, float y) {
  if (x < -0x1.5d589ep+6f) return y == 0 ? 0 : infinity;
  if (x > 89) return y == infinity ? 0 : infinity;
  const double correct = std::exp(static_cast<double>(x));
  const float rounded = static_cast<float>(correct);
  if (rounded == infinity) return y == infinity ? 0 : infinity;
  const std::uint64_t exponent = bits(rounded) >> 23;
  const double ulps_in_one = __builtin_bit_cast(double, (1023 + 150 - exponent) << 52);
  return std::abs(y - correct) * ulps_in_one;
}

/// Computes exp in every table for every float whose bits are first, first + stride, ...; returns the largest error.
double walk(std::uint64_t first, std::uint64_t stride, bool measure) {
  constexpr std::size_t block = 1 << 14;
  std::vector<float> x;
  std::vector<float> expected(block);
  std::vector<float> y(block);
  double worst = 0;
  for (std::uint64_t next = first; next < std::uint64_t{1} << 32;) {
    x.clear();
    for (; x.size() < block && next < std::uint64_t{1} << 32; next += stride) {
      x.push_back(__builtin_bit_cast(float, static_cast<std::uint32_t>(next)));
    }
    expected.resize(x.size());
    y.resize(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = exponential(x[i]);
    for (const Kernels* table : all_canonical()) {
      table->exponentials(x.data(), 0, 1, x.size(), y.data());
      const auto same = same_bits(y, expected);
      EXPECT_TRUE(same) << table->name << " from " << x.front();
      if (!same) return infinity;
    }
    for (std::size_t i = 0; measure && i < x.size(); ++i) {
      if (!std::isnan(x[i])) worst = std::max(worst, error_in_ulp(x[i], expected[i]));
    }
  }
  return worst;
}

TEST(Exp, GivesTheSameBitsInEveryTableOnADenseSubsetOfAllFloats) { walk(0, 509, false); }

TEST(Exp, StaysWithinTheStatedErrorOnASparseSubsetOfAllFloats) { EXPECT_LT(walk(1, 10007, true), 0.98); }

/// Whether exp of every stride-th float from 0 down to -104.5 is at most that of the one before.
bool never_rises_downwards(std::uint32_t stride) {
  float before = exponential(-0.0f);
  for (std::uint32_t next = 0x80000000u; next < __builtin_bit_cast(std::uint32_t, -104.5f); next += stride) {
    const float y = exponential(__builtin_bit_cast(float, next));
    if (y > before) return false;
    before = y;
  }
  return true;
}

TEST(Exp, IsMonotonicBelowZeroOnADenseSubset) { EXPECT_TRUE(never_rises_downwards(509)); }

TEST(ExpSlow, IsMonotonicBelowZero) { EXPECT_TRUE(never_rises_downwards(1)); }

TEST(ExpSlow, GivesTheSameBitsInEveryTableAndStaysWithinTheStatedErrorOnAllFloats) {
  const double worst = walk(0, 1, true);
  std::printf("largest error of exp: %.4f units in the last place\n", worst);
  EXPECT_LT(worst, 0.98);
}

TEST(Exp, HandlesEdgeCasesAsDocumented) {
  EXPECT_EQ(bits(exponential(0.0f)), bits(1.0f));
  EXPECT_EQ(bits(exponential(-0.0f)), bits(1.0f));
  EXPECT_EQ(bits(exponential(-infinity)), bits(0.0f));
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_TRUE(std::isnan(exponential(nan)));
  EXPECT_TRUE(std::isnan(exponential(-nan)));
  const float least = -0x1.5d589ep+6f;
  EXPECT_GE(exponential(least), 0x1p-126f);
  EXPECT_LT(std::exp(double{std::nextafter(least, -infinity)}), 0x1p-126);
  EXPECT_EQ(bits(exponential(std::nextafter(least, -infinity))), bits(0.0f));
  EXPECT_EQ(exponential(-std::numeric_limits<float>::max()), 0.0f);
  EXPECT_LT(exponential(88.7228f), infinity);
  EXPECT_EQ(exponential(88.7229f), infinity);
  EXPECT_EQ(exponential(std::numeric_limits<float>::max()), infinity);
}

TEST(Exp, NeverDecreasesAsItsArgumentIncreases) {
  float before = 0;
  for (float x = -104.5f; x < 89.5f; x += 0x1p-14f) {
    const float y = exponential(x);
    ASSERT_GE(y, before) << x;
    before = y;
  }
}

}  // namespace
}  // namespace draftproof::test::exp_test
