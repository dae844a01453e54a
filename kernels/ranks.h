// SPDX-License-Identifier: MIT
// Processes that compute one model together, "ranks". Each holds some of the outputs of every matrix and some KV heads.
// What a rank computes it computes as a single process does, and ranks exchange results, of which none is ever added to
// another's. So every number has the bits that it has in one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace draftproof {

/// One of the ranks. All of them make the same calls in the same order, with equal sizes.
class Ranks {
 public:
  Ranks(int rank, int count) : rank_(rank), count_(count) {}
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const noexcept { return rank_; }  // of this process, from 0
  int count() const noexcept { return count_; }

  /// Of so many things rank r holds those from first_of(things, r) up to first_of(things, r + 1).
  int first_of(int things, int rank) const noexcept { return static_cast<int>(std::int64_t{things} * rank / count_); }

  /// Completes a table of which each rank has filled its columns: rank r those from bounds[r] up to bounds[r + 1]. An
  /// element has `bytes` bytes, a row begins `stride` elements behind the one before.
  virtual void exchange(void* table, std::size_t bytes, int rows, std::ptrdiff_t stride,
                        std::span<const int> bounds) = 0;

  /// Replaces the bytes by those of rank 0.
  virtual void broadcast(std::vector<std::byte>& bytes) = 0;

  /// What was exchanged and broadcast so far.
  struct Traffic {
    std::uint64_t messages = 0;  // calls
    std::uint64_t bytes = 0;     // that this rank received of others or, of a broadcast, sent
  };
  const Traffic& traffic() const noexcept { return traffic_; }

 protected:
  Traffic traffic_;

 private:
  int rank_;
  int count_;
};

/// What a rank holds of so many things; without ranks all.
struct HeldRange {
  int first;
  int count;

  HeldRange(int things, const Ranks* ranks) noexcept : first(0), count(things) {
    if (ranks == nullptr) return;
    first = ranks->first_of(things, ranks->rank());
    count = ranks->first_of(things, ranks->rank() + 1) - first;
  }
};

/// The KV heads of a layer that a rank holds, and the heads that it computes; both follow each other. KV heads are cut
/// where there is one for each rank. Otherwise several ranks hold the same one and share the heads that read it.
struct HeldHeads {
  int kv_first;
  int kv_heads;
  int first;
  int heads;

  int kv_end() const noexcept { return kv_first + kv_heads; }
  int end() const noexcept { return first + heads; }
};
/// Those of rank `rank`; nullptr: of the only process, which holds all.
HeldHeads held_heads(int heads, int kv_heads, const Ranks* ranks, int rank) noexcept;
HeldHeads held_heads(int heads, int kv_heads, const Ranks* ranks) noexcept;

/// From where on each rank has some of so many things, of the heads that it computes, and of the KV heads that no rank
/// before it holds; as `exchange` wants it.
std::vector<int> bounds_of(int things, const Ranks& ranks);
std::vector<int> head_bounds(int heads, int kv_heads, const Ranks& ranks);
std::vector<int> kv_head_bounds(int kv_heads, const Ranks& ranks);

}  // namespace draftproof
