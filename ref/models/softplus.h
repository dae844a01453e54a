// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "kernels/math64.h"

namespace draftproof {

/// log(1 + exp(x))
inline double softplus(double x) noexcept { return x > 40 ? x : log64(1 + exp64(x)); }

/// y[i] = factor * softplus(x[i]), computed in double and rounded to float: the same bits, some twenty times as fast
/// for x above -10.
void softplus(const double* x, std::size_t count, double factor, float* y) noexcept;

}  // namespace draftproof
