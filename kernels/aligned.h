// SPDX-License-Identifier: MIT
// Aligned, zeroed memory for weights, activations and caches.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace draftproof {

/// Zeroed memory, 64-byte aligned; from 2 MiB on in huge pages where the system gives them, and each page in the memory
/// of the core that first writes to it. Throws std::bad_alloc.
class SharedPages;
struct FreeAligned {
  std::size_t mapped = 0;         // bytes, or 0 for small memory
  SharedPages* shared = nullptr;  // which the memory is a part of
  void operator()(void* memory) const noexcept;
};
template <class T>
using Aligned = std::unique_ptr<T[], FreeAligned>;
Aligned<std::byte> allocate_aligned(std::size_t bytes);
/// The same for what is freed together, as the weights of a model: smaller parts share huge pages, which are given back
/// when the last of them is freed.
Aligned<std::byte> allocate_shared_pages(std::size_t bytes);
template <class T>
Aligned<T> aligned(std::size_t count) {
  if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
  Aligned<std::byte> memory = allocate_aligned(count * sizeof(T));
  const FreeAligned free = memory.get_deleter();
  return Aligned<T>(reinterpret_cast<T*>(memory.release()), free);
}

}  // namespace draftproof
