// SPDX-License-Identifier: MIT
// A token is an index into a vocabulary; a valid one is never negative.
#pragma once

#include <cstdint>

namespace draftproof {

using Token = std::int32_t;

}  // namespace draftproof
