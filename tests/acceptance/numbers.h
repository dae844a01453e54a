// SPDX-License-Identifier: MIT
// Reproducible numbers for tests (splitmix64): the same on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace draftproof {

struct Numbers {
  std::uint64_t state;

  std::uint64_t next() {
    std::uint64_t x = state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[next() % choices.size()];
  }
};

}  // namespace draftproof
