// SPDX-License-Identifier: MIT
// exp, tanh and GELU for floats: one sequence of operations, written once over a lane type, so that every table gives
// the same bits.
// libm is not used because it selects different variants on different CPUs. Only multiplications and additions, no fma:
// so the scalar form is fast, and the compiler can vectorize it, on a machine whose baseline has no fma.
//
// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2)/2. n * ln2_high is exact (16 and at most 8 bits), so r
// carries only the rounding of n * ln2_low and of its subtraction. exp(r) = 1 + (r + r^2 * q(r)), q of degree 4, fitted
// with a relative error of 0.06 * 2^-24. 2^n is applied exactly: in two factors, so that n = 128 does not overflow.
//
// Results below 2^-126 are 0: denormals would make later operations up to a hundred times slower on some CPUs, and a
// sum that contains a 1, as those of softmax do, would not change by them.
//
// Error, measured over all 2^32 floats (tests/kernels/exp_test.cpp): less than 0.98 units in the last place of the
// correct result, or 0. exp(x) = 0 below -87.33654, exp(x) = +inf above 88.7229, exp(NaN) = NaN, exp(0) = 1.
//
// Everything here has internal linkage, because the instruction-set files include it.
#pragma once

#include <cstdint>

namespace draftproof {
namespace {

// The lane operations for one float; lanes_*.h define them for sixteen floats.
[[maybe_unused]] inline float constant(float, float value) { return value; }
[[maybe_unused]] inline float at_least(float limit, float x) { return limit > x ? limit : x; }  // a NaN x is returned
[[maybe_unused]] inline float at_most(float limit, float x) { return limit < x ? limit : x; }   // a NaN x is returned
[[maybe_unused]] inline float zero_below(float limit, float x, float y) { return x < limit ? 0.0f : y; }

/// Returns x * 2^n, where `shifted` is 1.5 * 2^23 + n and -126 <= n <= 128. The result must not be denormal.
[[maybe_unused]] inline float times_power(float x, float shifted) {
  const std::int32_t n = __builtin_bit_cast(std::int32_t, shifted) - 0x4b400000;
  const std::int32_t half = n >> 1;
  const std::uint32_t first = static_cast<std::uint32_t>(half + 127) << 23;
  const std::uint32_t second = static_cast<std::uint32_t>(n - half + 127) << 23;
  return x * __builtin_bit_cast(float, first) * __builtin_bit_cast(float, second);
}

/// Returns exp(x) / 2^n - 1 for -104 <= x <= 89, between -0.30 and 0.42. Sets `shifted` to 1.5 * 2^23 + n, as
/// times_power reads it.
template <class Value>
inline Value exponential_over_power_less_one(Value x, Value& shifted) {
  const Value shift = constant(x, 0x1.8p+23f);  // adding it rounds to an integer, ties to even
  shifted = x * constant(x, 0x1.715476p+0f) + shift;
  const Value n = shifted - shift;
  const Value r = (x - n * constant(x, 0x1.62e4p-1f)) - n * constant(x, 0x1.7f7d1cp-20f);
  Value q = constant(x, 0x1.6a23dp-10f);
  q = q * r + constant(x, 0x1.123a2p-7f);
  q = q * r + constant(x, 0x1.5558f2p-5f);
  q = q * r + constant(x, 0x1.555492p-3f);
  q = q * r + constant(x, 0x1.fffffcp-2f);
  return q * (r * r) + r;
}

/// The same without the subtraction.
template <class Value>
inline Value exponential_over_power(Value x, Value& shifted) {
  return exponential_over_power_less_one(x, shifted) + constant(x, 1.0f);
}

template <class Value>
inline Value exponential(Value x) {
  const Value min = constant(x, -0x1.5d589ep+6f);  // -87.33654, the smallest x whose result is at least 2^-126
  Value shifted;
  const Value y = exponential_over_power(at_most(constant(x, 89.0f), at_least(min, x)), shifted);
  return zero_below(min, x, times_power(y, shifted));
}

/// tanh(x) = e / (e + 2), e = exp(2x) - 1 = 2^n * (exp(r) - 1) + (2^n - 1), so that small x lose nothing to the
/// subtraction. Beyond |x| = 10 the result is 1 or -1.
///
/// Error (tests/kernels/exp_test.cpp): less than 3 units in the last place of the correct result. tanh(NaN) = NaN.
template <class Value>
inline Value hyperbolic_tangent(Value x) {
  const Value one = constant(x, 1.0f);
  Value shifted;
  const Value y =
      exponential_over_power_less_one(at_most(constant(x, 20.0f), at_least(constant(x, -20.0f), x + x)), shifted);
  const Value e = times_power(y, shifted) + (times_power(one, shifted) - one);
  return e / (e + constant(x, 2.0f));
}

/// gelu(x) = x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 * x^3), as x / (1 + exp(-2u)).
template <class Value>
inline Value gelu(Value x) {
  const Value twice_u = x * (constant(x, 0x1.988454p+0f) + constant(x, 0x1.2444f2p-4f) * (x * x));
  return x / (constant(x, 1.0f) + exponential(-twice_u));
}

}  // namespace
}  // namespace draftproof
