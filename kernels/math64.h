// SPDX-License-Identifier: MIT
// exp, log, sin, cos and powers of doubles with the same bits on every CPU, compiler and optimization level; libm
// selects different variants on different CPUs. For tables and statistics, not for inner loops. Only additions,
// multiplications and divisions.
//
// Errors, measured against long double libm (tests/kernels/math64_test.cpp), in units in the last place of the result:
// below 1 for each of the five.
#pragma once

namespace draftproof {

/// exp64(NaN) = NaN, exp64(-inf) = 0, overflow gives +inf, underflow is gradual.
double exp64(double x) noexcept;

/// Natural logarithm. log64(0) = -inf, log64(+inf) = +inf, NaN below 0.
double log64(double x) noexcept;

/// For |x| <= 2^27 (a RoPE angle of 134 million); NaN for a larger |x| and for NaN.
double sin64(double x) noexcept;
double cos64(double x) noexcept;

/// base^exponent for finite base > 0 and finite exponent; else NaN. power64(x, 0) = 1.
double power64(double base, double exponent) noexcept;

}  // namespace draftproof
