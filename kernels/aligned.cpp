// SPDX-License-Identifier: MIT
#include "kernels/aligned.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace draftproof {
namespace {

constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t small_page = std::size_t{1} << 16;  // on no system more
constexpr std::size_t shared_bytes = 16 * huge_page;      // what is not written to takes no memory

}  // namespace

/// Huge pages that are parted from the beginning on.
class SharedPages {
 public:
  static std::byte* part(std::size_t bytes, SharedPages*& from) {
    static std::mutex mutex;
    static SharedPages* open = nullptr;  // is itself a user of its pages
    const std::lock_guard lock(mutex);
    if (open == nullptr || open->next_ + bytes > shared_bytes) {
      auto* const fresh = new SharedPages;
      if (open != nullptr) open->release();
      open = fresh;
    }
    std::byte* const memory = open->memory_.get() + open->next_;
    open->next_ += (bytes + alignment - 1) / alignment * alignment;
    open->users_.fetch_add(1);
    from = open;
    return memory;
  }
  void release() noexcept {
    if (users_.fetch_sub(1) == 1) delete this;
  }

 private:
  static constexpr std::size_t alignment = 64;
  Aligned<std::byte> memory_ = allocate_aligned(shared_bytes);
  std::size_t next_ = 0;
  std::atomic<int> users_ = 1;
};

void FreeAligned::operator()(void* memory) const noexcept {
  if (shared != nullptr) {
    shared->release();
  } else if (mapped > 0) {
    munmap(memory, mapped);
  } else {
    std::free(memory);
  }
}

Aligned<std::byte> allocate_aligned(std::size_t bytes) {
  if (bytes > SIZE_MAX - 2 * huge_page) throw std::bad_alloc();
  if (bytes < huge_page) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes) != 0) throw std::bad_alloc();  // to the byte, so that ASan sees its end
    std::memset(memory, 0, bytes);
    return Aligned<std::byte>(static_cast<std::byte*>(memory), FreeAligned{});
  }
  // A huge page more than asked for, then what lies outside is given back: the start lies on a huge page, but the end
  // does not, or a model of many small weights would take a quarter more than it needs.
  const std::size_t rounded = (bytes + small_page - 1) / small_page * small_page;
  void* const mapped = mmap(nullptr, rounded + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const start = static_cast<std::byte*>(mapped);
  const std::size_t skipped = (huge_page - reinterpret_cast<std::uintptr_t>(start) % huge_page) % huge_page;
  if (skipped > 0) munmap(start, skipped);
  munmap(start + skipped + rounded, huge_page - skipped);
  std::byte* const memory = start + skipped;
#ifdef MADV_HUGEPAGE
  madvise(memory, rounded, MADV_HUGEPAGE);  // a wish; failure costs only speed
#endif
  return Aligned<std::byte>(memory, FreeAligned{.mapped = rounded});
}

Aligned<std::byte> allocate_shared_pages(std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  return allocate_aligned(bytes);  // so that the end of each is seen
#else
  if (bytes >= huge_page) return allocate_aligned(bytes);
  SharedPages* from = nullptr;
  std::byte* const memory = SharedPages::part(bytes, from);
  return Aligned<std::byte>(memory, FreeAligned{.shared = from});
#endif
}

}  // namespace draftproof
