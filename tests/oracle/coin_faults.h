// SPDX-License-Identifier: MIT
// Wrong uses of a generator, for tests of evidence from coins and for their snapshot.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "tests/oracle/float_engine.h"

namespace draftproof {

/// Coins that depend on each other.
struct CoinFault {
  const char* name;
  std::function<double(Bits&, const std::vector<double>& before)> coin;
  const char* looks_like;  // a part of the suspect's name
};

inline std::vector<CoinFault> coin_faults() {
  return {
      {"every coin 0", [](Bits&, const auto&) { return 0.0; }, ""},
      {"u for sqrt(u)", [](Bits& bits, const auto&) { return std::pow(coin_of_24_bits(bits), 2); }, "not uniform"},
      {"one u for a round",
       [](Bits& bits, const auto& before) { return before.size() % 7 == 0 ? coin_of_24_bits(bits) : before.back(); },
       ""},
      {"antithetic",
       [](Bits& bits, const auto& before) {
         return before.size() % 2 == 0 ? coin_of_24_bits(bits) : 1 - before.back();
       },
       "mirrors"},
      {"a step of 0.123456",
       [](Bits& bits, const auto& before) {
         return before.empty() ? coin_of_24_bits(bits) : std::fmod(before.back() + 0.123456, 1);
       },
       "follows"},
      {"repeated after 300",
       [](Bits& bits, const auto& before) {
         return before.size() < 300 ? coin_of_24_bits(bits) : before[before.size() - 300];
       },
       "one coin in two decisions"},
  };
}

}  // namespace draftproof
