// SPDX-License-Identifier: MIT
// Put before the C library: of the allocations since main() began, all fail from the number FAIL_FROM on, or FAIL_ONE
// alone.
#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

using Main = int (*)(int, char**, char**);
using Nothing = void (*)();

std::atomic<long> allocations{0};
std::atomic<bool> in_main{false};
Main real_main = nullptr;

int counted_main(int count, char** words, char** environment) {
  in_main = true;
  return real_main(count, words, environment);
}

bool fails() {
  static const char* const from = std::getenv("FAIL_FROM");
  static const char* const one = std::getenv("FAIL_ONE");
  if (!in_main) return false;
  const long number = allocations.fetch_add(1) + 1;
  if ((from == nullptr || number < std::atol(from)) && (one == nullptr || number != std::atol(one))) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) { return fails() ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return fails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* old, std::size_t bytes) { return fails() ? nullptr : __libc_realloc(old, bytes); }
void* aligned_alloc(std::size_t to, std::size_t bytes) { return fails() ? nullptr : __libc_memalign(to, bytes); }
void* memalign(std::size_t to, std::size_t bytes) { return fails() ? nullptr : __libc_memalign(to, bytes); }
int posix_memalign(void** result, std::size_t to, std::size_t bytes) {
  if (fails()) return ENOMEM;
  *result = __libc_memalign(to, bytes);
  return *result != nullptr ? 0 : ENOMEM;
}
int __libc_start_main(Main main, int count, char** words, Nothing begin, Nothing end, Nothing unload, void* stack) {
  using Start = int (*)(Main, int, char**, Nothing, Nothing, Nothing, void*);
  real_main = main;
  return reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"))(counted_main, count, words, begin, end, unload,
                                                                        stack);
}
}
