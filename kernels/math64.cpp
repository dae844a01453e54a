// SPDX-License-Identifier: MIT
// Taylor series after argument reduction. Where the 53 bits of a double are too few, a value is an unevaluated sum of
// two doubles (T. J. Dekker, "A floating-point technique for extending the available precision", 1971; the two-sum is
// D. E. Knuth's).
#include "kernels/math64.h"

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace draftproof {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// high + low, |low| <= half a unit in the last place of high.
struct DoubleDouble {
  double high;
  double low;
};

/// Returns exactly a + b.
DoubleDouble sum(double a, double b) {
  const double high = a + b;
  const double shadow = high - a;
  return {high, (a - (high - shadow)) + (b - shadow)};
}

/// Returns exactly a * b, for |a|, |b| < 2^996 and a product that is not denormal.
DoubleDouble product(double a, double b) {
  const auto split = [](double x) {
    const double c = x * 0x1.0000002p+27;  // 2^27 + 1
    const double high = c - (c - x);
    return DoubleDouble{high, x - high};
  };
  const double high = a * b;
  const DoubleDouble u = split(a);
  const DoubleDouble v = split(b);
  return {high, ((u.high * v.high - high) + u.high * v.low + u.low * v.high) + u.low * v.low};
}

DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble s = sum(a.high, b.high);
  return sum(s.high, s.low + (a.low + b.low));
}

DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble p = product(a.high, b.high);
  return sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double quotient = a.high / b.high;
  const DoubleDouble p = product(quotient, b.high);
  const double rest = ((a.high - p.high) - p.low) + (a.low - quotient * b.low);
  return sum(quotient, rest / b.high);
}

/// Returns the integer nearest to x, ties to even, |x| < 2^51.
double nearest(double x) { return (x + 0x1.8p+52) - 0x1.8p+52; }

// ln 2 = 32 bits + 32 bits + rest: the products of the first two with an exponent (at most 11 bits) are exact.
constexpr double ln2_first = 0x1.62e42feep-1;
constexpr double ln2_second = 0x1.a39ef356p-33;
constexpr double ln2_third = 0x1.93c7673007e5fp-65;

/// 2^n for -1022 <= n <= 1023.
double power_of_two(int n) { return __builtin_bit_cast(double, static_cast<std::uint64_t>(n + 1023) << 52); }

/// exp(x.high + x.low).
double exponential_of(DoubleDouble x) {
  if (x.high > 710) return infinity;
  if (x.high < -746) return 0;
  const double n = nearest(x.high * 0x1.71547652b82fep+0);
  const DoubleDouble r = sum(x.high - n * ln2_first, -(n * ln2_second));  // the first difference is exact
  const double low = r.low + (x.low - n * ln2_third);

  // exp(r) = 1 + r + r^2 (1/2! + r/3! + ...), |r| < 0.347: the first term left out, r^15/15!, is below 2^-62.
  double q = 0;
  double factorial = 87178291200.0;  // 14!
  for (int i = 14; i >= 2; --i) {
    q = q * r.high + 1.0 / factorial;
    factorial = factorial / i;  // exact: both are integers below 2^53
  }
  const double rest = r.high * r.high * q;
  const DoubleDouble one = sum(1.0, r.high);
  const double y = one.high + (one.low + (rest + low * (one.high + rest)));  // exp(r + low) = exp(r) (1 + low)
  const int exponent = static_cast<int>(n);
  const int half = exponent / 2;
  return y * power_of_two(half) * power_of_two(exponent - half);
}

/// ln x for finite x > 0, to about 100 bits.
DoubleDouble logarithm_of(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact; [1/2, 1)
  if (m < 0x1.6a09e667f3bcdp-1) {
    m = m * 2;
    --exponent;
  }
  // m in [sqrt(1/2), sqrt(2)): ln m = 2 atanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...), s = (m - 1) / (m + 1), |s| < 0.172:
  // the first term left out is below 2^-106 of the sum.
  const DoubleDouble s = DoubleDouble{m - 1, 0} / sum(m, 1);  // m - 1 is exact
  const DoubleDouble square = s * s;
  DoubleDouble series = {0, 0};
  for (int j = 20; j >= 0; --j) series = series * square + DoubleDouble{1, 0} / DoubleDouble{2.0 * j + 1, 0};
  const DoubleDouble ln_m = DoubleDouble{2 * s.high, 2 * s.low} * series;
  const double n = exponent;
  return DoubleDouble{n * ln2_first, 0} + (DoubleDouble{n * ln2_second, n * ln2_third} + ln_m);
}

struct Angle {
  DoubleDouble rest;  // x - quarter * pi/2, in [-pi/4, pi/4] up to rounding
  int quarter;        // mod 4
};

/// |x| <= 2^27, so that a quotient has at most 27 bits and its products with the 25-bit parts of pi/2 are exact.
Angle reduced(double x) {
  const double n = nearest(x * 0x1.45f306dc9c883p-1);
  DoubleDouble rest = {x, 0};
  for (const double part : {0x1.921fb5p+0, 0x1.110b46p-26, 0x1.1a6263p-54, 0x1.8a2e03707344ap-81}) {
    const DoubleDouble s = sum(rest.high, -(n * part));
    rest = sum(s.high, rest.low + s.low);
  }
  return {rest, static_cast<int>(static_cast<std::int64_t>(n) & 3)};
}

/// sin(a) = h + (l cos(h) + h^3 (-1/3! + h^2/5! - ...)), |h| < 0.786: the first term left out is below 2^-63.
double sine_of(DoubleDouble a) {
  const double z = a.high * a.high;
  double series = 0;
  double factorial = 355687428096000.0;  // 17!
  for (int i = 17; i >= 3; i -= 2) {
    series = series * z + (i % 4 == 1 ? 1.0 : -1.0) / factorial;
    factorial = factorial / i / (i - 1);
  }
  return a.high + (a.low * (1 - 0.5 * z) + a.high * z * series);
}

/// cos(a) = 1 - h^2/2 + (h^4 (1/4! - h^2/6! + ...) - h l), |h| < 0.786.
double cosine_of(DoubleDouble a) {
  const double z = a.high * a.high;
  double series = 0;
  double factorial = 6402373705728000.0;  // 18!
  for (int i = 18; i >= 4; i -= 2) {
    series = series * z + (i % 4 == 0 ? 1.0 : -1.0) / factorial;
    factorial = factorial / i / (i - 1);
  }
  const DoubleDouble start = sum(1.0, -0.5 * z);
  return start.high + (start.low + (z * z * series - a.high * a.low));
}

/// sin(x + quarters * pi/2)
double circular(double x, int quarters) {
  if (!(x >= -0x1p27 && x <= 0x1p27)) return nan;
  const Angle angle = reduced(x);
  const int quarter = (angle.quarter + quarters) & 3;
  const double y = quarter % 2 == 0 ? sine_of(angle.rest) : cosine_of(angle.rest);
  return quarter < 2 ? y : -y;
}

}  // namespace

double exp64(double x) noexcept { return x != x ? nan : exponential_of({x, 0}); }

double log64(double x) noexcept {
  if (x == 0) return -infinity;
  if (!(x > 0)) return nan;
  if (x == infinity) return infinity;
  return logarithm_of(x).high;
}

double sin64(double x) noexcept { return circular(x, 0); }

double cos64(double x) noexcept { return circular(x, 1); }

double power64(double base, double exponent) noexcept {
  if (!(base > 0 && base < infinity && exponent - exponent == 0)) return nan;
  const DoubleDouble log = logarithm_of(base);
  const double rough = exponent * log.high;
  if (!(rough > -800 && rough < 800)) return rough > 0 ? infinity : 0;
  if (rough == 0) return 1;
  const DoubleDouble exact = product(exponent, log.high);
  return exponential_of({exact.high, exact.low + exponent * log.low});
}

}  // namespace draftproof
