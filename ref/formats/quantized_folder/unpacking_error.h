// SPDX-License-Identifier: MIT
// What it costs to keep the weights of a quantized folder in formats of the engine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ref/formats/checkpoint.h"

namespace draftproof {

struct UnpackingError {
  std::map<std::string, std::uint64_t> matrices;  // by the format that they become
  std::uint64_t values = 0;                       // that were compared
  double max = 0;                                 // of |kept - exact| / |exact|, where the exact value is not 0
  double rms = 0;                                 // of the difference, relative to that of the values
};

/// Compares rows of every quantized matrix, evenly spread, about a million values of each.
UnpackingError measure_unpacking(const Checkpoint& files);

}  // namespace draftproof
