// SPDX-License-Identifier: MIT
// The quantiles of the standard normal distribution in double, with the same bits everywhere.
#pragma once

namespace draftproof {

/// The x below which a standard normal variable lies with probability p, to about 16 digits (Wichura 1988, AS 241).
/// p lies between 0 and 1; else NaN.
double normal_quantile64(double p) noexcept;

}  // namespace draftproof
