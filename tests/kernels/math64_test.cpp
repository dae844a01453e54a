// SPDX-License-Identifier: MIT
// Compares with long double libm, which has 11 more bits on x86-64.
#include "kernels/math64.h"

#include "support.h"

namespace draftproof::test::math64_test {
namespace {

constexpr double ulp_max = 1.0;  // as stated in math64.h

double error_in_ulp(double y, long double correct) {
  const double rounded = static_cast<double>(correct);
  if (y == rounded) return 0;
  const double size = std::max(std::abs(rounded), 0x1p-1022);
  const long double ulp = std::ldexp(1.0, std::ilogb(size) - 52);
  return static_cast<double>(std::abs(static_cast<long double>(y) - correct) / ulp);
}

class Doubles {
 public:
  double between(double low, double high) {
    const double unit = (numbers_.next() + numbers_.next() * 0x1p-32) * 0x1p-32;
    return low + (high - low) * unit;
  }

 private:
  Numbers numbers_{31};
};

constexpr int samples = 60'000;

TEST(Math64, ExpIsWithinOneUnitInTheLastPlaceDenormalsIncluded) {
  Doubles doubles;
  for (int i = 0; i < samples; ++i) {
    for (const double range : {0.001, 1.0, 40.0, 708.0}) {
      const double x = doubles.between(-range, range);
      ASSERT_LT(error_in_ulp(exp64(x), std::exp(static_cast<long double>(x))), ulp_max) << x;
    }
    const double x = doubles.between(-746, -708);
    ASSERT_LT(error_in_ulp(exp64(x), std::exp(static_cast<long double>(x))), ulp_max) << x;
  }
}

TEST(Math64, LogIsWithinOneUnitInTheLastPlaceNearOneAndForDenormals) {
  Doubles doubles;
  for (int i = 0; i < samples; ++i) {
    const double wide = std::exp(doubles.between(-744, 709));
    for (const double x : {wide, doubles.between(0.5, 2), doubles.between(0.9999, 1.0001)}) {
      ASSERT_LT(error_in_ulp(log64(x), std::log(static_cast<long double>(x))), ulp_max) << x;
    }
  }
}

TEST(Math64, SineAndCosineAreWithinOneUnitInTheLastPlaceUpToTheirLimit) {
  Doubles doubles;
  for (int i = 0; i < samples; ++i) {
    for (const double range : {0.01, 1.0, 10.0, 1e4, 1e6, 0x1p27}) {
      const double x = doubles.between(-range, range);
      ASSERT_LT(error_in_ulp(sin64(x), std::sin(static_cast<long double>(x))), ulp_max) << x;
      ASSERT_LT(error_in_ulp(cos64(x), std::cos(static_cast<long double>(x))), ulp_max) << x;
    }
  }
}

TEST(Math64, SineAndCosineAreExactToTheLastPlaceWhereTheyNearlyVanish) {
  const long double quarter = 1.57079632679489661923L;
  Doubles doubles;
  for (int i = 0; i < samples; ++i) {
    const double n = std::floor(doubles.between(1, i % 2 == 0 ? 1000 : 8e7));
    const double x = static_cast<double>(n * quarter);
    ASSERT_LT(error_in_ulp(sin64(x), std::sin(static_cast<long double>(x))), ulp_max) << x;
    ASSERT_LT(error_in_ulp(cos64(x), std::cos(static_cast<long double>(x))), ulp_max) << x;
  }
}

TEST(Math64, PowerIsWithinOneUnitInTheLastPlaceForRotaryFrequenciesAndFarBeyond) {
  for (const double theta : {1e4, 5e5, 1e6, 1e7}) {
    for (int j = 0; j < 256; ++j) {
      const double y = power64(theta, j / 256.0);
      const long double correct = std::pow(static_cast<long double>(theta), static_cast<long double>(j / 256.0));
      ASSERT_LT(error_in_ulp(y, correct), ulp_max) << theta << " " << j;
    }
  }
  Doubles doubles;
  for (int i = 0; i < samples; ++i) {
    const double base = std::exp(doubles.between(-50, 50));
    const double exponent = doubles.between(-14, 14);
    const long double correct = std::pow(static_cast<long double>(base), static_cast<long double>(exponent));
    ASSERT_LT(error_in_ulp(power64(base, exponent), correct), ulp_max) << base << " " << exponent;
  }
}

TEST(Math64, HandlesEdgeCasesAsDocumented) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(exp64(0), 1);
  EXPECT_EQ(exp64(-infinite), 0);
  EXPECT_EQ(exp64(infinite), infinite);
  EXPECT_EQ(exp64(709.8), infinite);
  EXPECT_EQ(exp64(-745.2), 0);
  EXPECT_TRUE(std::isnan(exp64(none)));
  EXPECT_EQ(log64(1), 0);
  EXPECT_EQ(log64(0), -infinite);
  EXPECT_EQ(log64(infinite), infinite);
  EXPECT_TRUE(std::isnan(log64(-1)));
  EXPECT_TRUE(std::isnan(log64(none)));
  EXPECT_EQ(sin64(0), 0);
  EXPECT_EQ(cos64(0), 1);
  EXPECT_TRUE(std::isnan(sin64(0x1.1p27)));
  EXPECT_TRUE(std::isnan(cos64(infinite)));
  EXPECT_TRUE(std::isnan(cos64(none)));
  EXPECT_EQ(power64(1e4, 0), 1);
  EXPECT_EQ(power64(2, 10), 1024);
  EXPECT_EQ(power64(1, 1e300), 1);
  EXPECT_EQ(power64(10, 400), infinite);
  EXPECT_EQ(power64(10, -400), 0);
  EXPECT_TRUE(std::isnan(power64(-1, 2)));
  EXPECT_TRUE(std::isnan(power64(0, 2)));
  EXPECT_TRUE(std::isnan(power64(2, infinite)));
}

}  // namespace
}  // namespace draftproof::test::math64_test
