// SPDX-License-Identifier: MIT
#pragma once

#include "kernels/math64.h"

namespace draftproof {

/// log(1 + exp(x))
inline double softplus(double x) noexcept { return x > 40 ? x : log64(1 + exp64(x)); }

}  // namespace draftproof
