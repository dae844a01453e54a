// SPDX-License-Identifier: MIT
// A target under libFuzzer, DRAFTPROOF_FUZZ_TARGET: a program for each, as after every input libFuzzer looks at the
// counters of all code that is in the program.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "tests/fuzz/target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);

namespace draftproof::fuzz {
namespace {

constexpr const Target& target = DRAFTPROOF_FUZZ_TARGET;

std::string text_in(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

std::size_t put(const std::string& text, std::uint8_t* to, std::size_t size_max) {
  const std::size_t size = std::min(text.size(), size_max);
  std::memcpy(to, text.data(), size);
  return size;
}

}  // namespace
}  // namespace draftproof::fuzz

using draftproof::fuzz::put;
using draftproof::fuzz::target;
using draftproof::fuzz::text_in;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    target.run(text_in(data, size));
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "%s: %s\n", target.name, wrong.what());
    std::abort();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t size_max,
                                               unsigned seed) {
  draftproof::Numbers numbers(seed);
  if (size == 0 || numbers.below(2) == 0) return LLVMFuzzerMutate(data, size, size_max);
  std::string input = text_in(data, size);
  target.change(input, input, numbers);
  return put(input, data, size_max);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* one, std::size_t one_size,
                                                 const std::uint8_t* other, std::size_t other_size, std::uint8_t* to,
                                                 std::size_t size_max, unsigned seed) {
  draftproof::Numbers numbers(seed);
  std::string input = text_in(one, one_size);
  target.change(input, text_in(other, other_size), numbers);
  return put(input, to, size_max);
}
