// SPDX-License-Identifier: MIT
#include "ref/models/softplus.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace draftproof::test::softplus_test {
namespace {

std::vector<double> numbers() {
  std::vector<double> x = {0,
                           -0.0,
                           40,
                           -40,
                           40.0000001,
                           -40.0000001,
                           1000,
                           -1000,
                           1e300,
                           -1e300,
                           1e-300,
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()};
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const double part = static_cast<double>(random() >> 11) * 0x1p-53;
    x.push_back(i % 4 == 0 ? part * 100 - 50 : i % 4 == 1 ? part * 16 - 8 : float(part * 4 - 2) + double{float(part)});
  }
  return x;
}

TEST(Softplus, OfManyHasTheBitsOfEach) {
  const std::vector<double> x = numbers();
  std::vector<float> y(x.size());
  for (const double factor : {1.0, -0.37, -16.0}) {
    draftproof::softplus(x.data(), x.size(), factor, y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto expected = static_cast<float>(factor * draftproof::softplus(x[i]));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(expected)) << factor << " " << x[i];
    }
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  draftproof::softplus(&nan, 1, 1, y.data());
  EXPECT_TRUE(std::isnan(y[0]));
}

/// Values of which one neighbor in double is below the middle of two floats and the other one is not.
TEST(Softplus, IsRightWhereItsRoundingIsClose) {
  int close = 0;
  for (int i = 0; i < 2000; ++i) {
    double low = -6 + 0.005 * i;
    double high = low + 1e-6;
    const float of_low = static_cast<float>(draftproof::softplus(low));
    if (static_cast<float>(draftproof::softplus(high)) == of_low) continue;
    while (std::nextafter(low, high) < high) {
      const double middle = low + (high - low) / 2;
      (static_cast<float>(draftproof::softplus(middle)) == of_low ? low : high) = middle;
    }
    ++close;
    for (const double x : {low, high}) {
      float y = 0;
      draftproof::softplus(&x, 1, 1, &y);
      EXPECT_EQ(y, static_cast<float>(draftproof::softplus(x))) << x;
    }
  }
  EXPECT_GT(close, 100);
}

}  // namespace
}  // namespace draftproof::test::softplus_test
