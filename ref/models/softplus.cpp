// SPDX-License-Identifier: MIT
// A value is estimated first. Where all numbers that are as close to the estimate as the exact value round to the same
// float, that is the result (A. Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last
// bit", 1991); the few others are computed as softplus says.
#include "ref/models/softplus.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace draftproof {
namespace {

constexpr double estimated_max = 40;  // of |x|: beyond, an estimate means nothing

/// An estimate is off by no more than this times itself, as exp and log below are by a few times 2^-52, plus what
/// rounding 1 + exp(x) takes from it.
constexpr double error_of_estimate = 0x1p-46;
constexpr double error_of_sum = 0x1p-51;

/// The first factor is that of the highest power.
template <std::size_t count>
inline double polynomial(double x, const double (&factors)[count]) {
  double sum = factors[0];
#pragma GCC unroll 16
  for (std::size_t i = 1; i < count; ++i) sum = sum * x + factors[i];
  return sum;
}

/// exp(x) for |x| <= 40, by exp(x) = 2^n exp(r) and the series of exp(r), |r| <= ln 2 / 2, whose first term left out is
/// below 2^-57.
double estimated_exp(double x) {
  constexpr double shift = 0x1.8p+52;
  const double shifted = x * 0x1.71547652b82fep+0 + shift;
  const double n = shifted - shift;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  const double series =
      polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                     1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0});
  const std::uint64_t power = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;  // 2^n
  return series * std::bit_cast<double>(power);
}

/// log(y) for 1 <= y <= 2^60, by log(y) = k ln 2 + 2 artanh(s), s = (m - 1) / (m + 1), y = 2^k m, |s| < 0.172, whose
/// first term left out is below 2^-60 times the sum.
double estimated_log(double y) {
  constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(y);
  const std::uint64_t k = (bits - root_half) >> 52;  // y >= 1, so it is not negative
  const double m = std::bit_cast<double>(bits - (k << 52));
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  const double series = polynomial(square, {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                            1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0});
  const double whole = std::bit_cast<double>(k | 0x4330000000000000) - 0x1p+52;  // k as a double, also in vectors
  return whole * 0x1.62e42fefa39efp-1 + 2 * s * series;
}

}  // namespace

void softplus(const double* x, std::size_t count, double factor, float* y) noexcept {
  constexpr std::size_t lot = 64;
  std::array<double, lot> estimates;
  for (std::size_t first = 0; first < count; first += lot) {
    const std::size_t size = std::min(lot, count - first);
    for (std::size_t i = 0; i < size; ++i) {
      estimates[i] = estimated_log(1 + estimated_exp(x[first + i]));
    }
    for (std::size_t i = 0; i < size; ++i) {
      const double error = estimates[i] * error_of_estimate + error_of_sum;
      const auto below = static_cast<float>(factor * (estimates[i] - error));
      const double at = x[first + i];
      const bool sure = below == static_cast<float>(factor * (estimates[i] + error)) && std::abs(at) <= estimated_max;
      y[first + i] = sure ? below : static_cast<float>(factor * softplus(at));
    }
  }
}

}  // namespace draftproof
