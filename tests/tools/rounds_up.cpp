// SPDX-License-Identifier: MIT
// A library that leaves the processor rounding upward, as some do that were built for speed.
#include <cfenv>

namespace {

const int rounding_set = std::fesetround(FE_UPWARD);

}  // namespace
