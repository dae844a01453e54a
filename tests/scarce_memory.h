// SPDX-License-Identifier: MIT
// Memory that runs out when a test says so. One file of an executable includes this, and all of it allocates through
// these operators.
#pragma once

#include <cstdlib>
#include <new>

namespace draftproof::test {
inline thread_local long allocations_left = -1;  // before some fail; below 0: none does
inline thread_local long failures_left = 0;
}  // namespace draftproof::test

// Never inlined, because g++ would warn about mismatched new and free.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (draftproof::test::allocations_left == 0 && draftproof::test::failures_left > 0) {
    --draftproof::test::failures_left;
    throw std::bad_alloc();
  }
  if (draftproof::test::allocations_left > 0) --draftproof::test::allocations_left;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
