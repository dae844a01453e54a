// SPDX-License-Identifier: MIT
#include "kernels/exp.h"

#include "support.h"

namespace draftproof::test::exp_test {
namespace {

/// Each function that some canonical vector table has, once.
std::vector<const Kernels*> vector_tables() {
  std::vector<const Kernels*> tables;
  for (const Kernels* table : canonical_tables()) {
    const auto same = [&](const Kernels* other) { return other->exponentials == table->exponentials; };
    if (std::none_of(tables.begin(), tables.end(), same)) tables.push_back(table);
  }
  return tables;
}

/// Returns |y - exp(x)| in units in the last place of the correct result; double exp is exact enough to count as
/// correct. Works on bits because it runs 2^32 times.
double error_in_ulp(float x, float y) {
  if (x < -0x1.5d589ep+6f) return y == 0 ? 0 : infinity;
  if (x > 89) return y == infinity ? 0 : infinity;
  if (std::abs(x) < 0x1p-25f) return y == 1 ? 0.5 : infinity;  // half a unit below 1, a quarter above
  const double correct = std::exp(static_cast<double>(x));
  const float rounded = static_cast<float>(correct);
  if (rounded == infinity) return y == infinity ? 0 : infinity;
  const std::uint64_t exponent = bits(rounded) >> 23;
  const double ulps_in_one = __builtin_bit_cast(double, (1023 + 150 - exponent) << 52);
  return std::abs(y - correct) * ulps_in_one;
}

/// Every float whose bits are first, first + stride, ..., up to `last`, in blocks.
template <class Visit>
void for_floats(std::uint64_t first, std::uint64_t last, std::uint64_t stride, const Visit& visit) {
  std::vector<float> x;
  for (std::uint64_t next = first; next <= last;) {
    x.clear();
    for (; x.size() < 1 << 14 && next <= last; next += stride) {
      x.push_back(__builtin_bit_cast(float, static_cast<std::uint32_t>(next)));
    }
    visit(x);
  }
}

std::vector<float> exponentials_of(const Kernels& table, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  table.exponentials(x.data(), 0, 1, x.size(), y.data());
  return y;
}

/// Compares exp in every table with the scalar one; returns the largest error.
double walk(std::uint64_t first, std::uint64_t stride, bool measure) {
  double worst = 0;
  for_floats(first, 0xffffffff, stride, [&](const std::vector<float>& x) {
    const std::vector<float> expected = exponentials_of(scalar(), x);
    for (const Kernels* table : vector_tables()) {
      const auto same = same_bits(exponentials_of(*table, x), expected);
      EXPECT_TRUE(same) << table->name << " from " << x.front();
      if (!same) worst = infinity;
    }
    for (std::size_t i = 0; measure && i < x.size(); ++i) {
      if (!std::isnan(x[i])) worst = std::max(worst, error_in_ulp(x[i], expected[i]));
    }
  });
  return worst;
}

TEST(Exp, GivesTheSameBitsInEveryTableOnADenseSubsetOfAllFloats) { walk(0, 509, false); }

TEST(Exp, OfTheScalarTableIsTheDocumentedFormulaOnADenseSubsetOfAllFloats) {
  for_floats(0, 0xffffffff, 509, [](const std::vector<float>& x) {
    std::vector<float> expected;
    for (const float value : x) expected.push_back(exponential(value));
    EXPECT_TRUE(same_bits(exponentials_of(scalar(), x), expected)) << "from " << x.front();
  });
}

TEST(Exp, StaysWithinTheStatedErrorOnASparseSubsetOfAllFloats) { EXPECT_LT(walk(1, 10007, true), 0.98); }

/// Whether exp of every stride-th float from 0 down to -104.5 is at most that of the one before.
bool never_rises_downwards(std::uint32_t stride) {
  float before = 1;
  bool falls = true;
  for_floats(bits(-0.0f), bits(-104.5f), stride, [&](const std::vector<float>& x) {
    for (const float y : exponentials_of(best_kernels(), x)) {
      falls &= y <= before;
      before = y;
    }
  });
  return falls;
}

TEST(Exp, IsMonotonicBelowZeroOnADenseSubset) { EXPECT_TRUE(never_rises_downwards(509)); }

/// `stride`: of so many floats one.
void expect_same_bits_and_the_stated_error(std::uint32_t stride) {
  const double worst = walk(0, stride, true);
  std::printf("largest error of exp: %.4f units in the last place\n", worst);
  EXPECT_LT(worst, 0.98);
}

TEST(ExpSlow, IsMonotonicBelowZeroOnADenserSubset) { EXPECT_TRUE(never_rises_downwards(17)); }
TEST(ExpSlow, GivesTheSameBitsInEveryTableAndStaysWithinTheStatedErrorOnADenserSubset) {
  expect_same_bits_and_the_stated_error(17);
}

TEST(ExpSweep, IsMonotonicBelowZero) { EXPECT_TRUE(never_rises_downwards(1)); }
TEST(ExpSweep, GivesTheSameBitsInEveryTableAndStaysWithinTheStatedErrorOnAllFloats) {
  expect_same_bits_and_the_stated_error(1);
}

TEST(Exp, HandlesEdgeCasesAsDocumented) {
  EXPECT_EQ(bits(exponential(0.0f)), bits(1.0f));
  EXPECT_EQ(bits(exponential(-0.0f)), bits(1.0f));
  EXPECT_EQ(bits(exponential(-infinity)), bits(0.0f));
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_TRUE(std::isnan(exponential(nan)));
  EXPECT_TRUE(std::isnan(exponential(-nan)));
  const float min = -0x1.5d589ep+6f;
  EXPECT_GE(exponential(min), 0x1p-126f);
  EXPECT_LT(std::exp(double{std::nextafter(min, -infinity)}), 0x1p-126);
  EXPECT_EQ(bits(exponential(std::nextafter(min, -infinity))), bits(0.0f));
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

TEST(HyperbolicTangent, StaysWithinTheStatedErrorOnASubsetOfAllFloats) {
  double worst = 0;
  for_floats(0, 0xffffffff, 10007, [&](const std::vector<float>& x) {
    for (const float value : x) {
      if (std::isnan(value)) continue;
      const double correct = std::tanh(static_cast<double>(value));
      const float rounded = std::abs(static_cast<float>(correct));
      const double unit = double{std::nextafter(rounded, infinity)} - rounded;
      worst = std::max(worst, std::abs(hyperbolic_tangent(value) - correct) / unit);
    }
  });
  std::printf("largest error of tanh: %.4f units in the last place\n", worst);
  EXPECT_LT(worst, 3);
}

TEST(HyperbolicTangent, HandlesEdgeCasesAsDocumented) {
  EXPECT_EQ(bits(hyperbolic_tangent(0.0f)), bits(0.0f));
  EXPECT_EQ(hyperbolic_tangent(infinity), 1);
  EXPECT_EQ(hyperbolic_tangent(-infinity), -1);
  EXPECT_EQ(hyperbolic_tangent(10.0f), 1);
  EXPECT_TRUE(std::isnan(hyperbolic_tangent(nan)));
}

}  // namespace
}  // namespace draftproof::test::exp_test
