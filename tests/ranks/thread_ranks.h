// SPDX-License-Identifier: MIT
// Ranks that are threads of the test, which exchange through memory.
#pragma once

#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/ranks.h"
#include "ref/ranks/led_model.h"

namespace draftproof::test {

class ThreadRanks : public Ranks {
 public:
  /// What all of them see.
  class Meeting {
   public:
    explicit Meeting(int count) : of_rank(static_cast<std::size_t>(count)), missing_(count) {}

    /// Waits, asleep, until all are here.
    void meet() {
      std::unique_lock lock(mutex_);
      const int round = round_;
      if (--missing_ == 0) {
        missing_ = static_cast<int>(of_rank.size());
        ++round_;
        all_here_.notify_all();
      } else {
        all_here_.wait(lock, [&] { return round_ != round; });
      }
    }

    std::vector<const void*> of_rank;

   private:
    std::mutex mutex_;
    std::condition_variable all_here_;
    int missing_;
    int round_ = 0;
  };
  ThreadRanks(int rank, int count, Meeting& meeting) : Ranks(rank, count), meeting_(meeting) {}

  void exchange(void* table, std::size_t bytes, int rows, std::ptrdiff_t stride, std::span<const int> bounds) override {
    meeting_.of_rank[static_cast<std::size_t>(rank())] = table;
    meeting_.meet();
    for (std::size_t other = 0; other < static_cast<std::size_t>(count()); ++other) {
      if (other == static_cast<std::size_t>(rank())) continue;
      const auto begin = bytes * static_cast<std::size_t>(bounds[other]);
      const auto size = bytes * static_cast<std::size_t>(bounds[other + 1] - bounds[other]);
      for (int row = 0; row < rows && size > 0; ++row) {
        const std::size_t of_row = bytes * static_cast<std::size_t>(stride) * static_cast<std::size_t>(row);
        std::memcpy(static_cast<std::byte*>(table) + of_row + begin,
                    static_cast<const std::byte*>(meeting_.of_rank[other]) + of_row + begin, size);
      }
    }
    meeting_.meet();
  }

  void broadcast(std::vector<std::byte>& bytes) override {
    if (rank() == 0) meeting_.of_rank[0] = &bytes;
    meeting_.meet();
    if (rank() != 0) bytes = *static_cast<const std::vector<std::byte>*>(meeting_.of_rank[0]);
    meeting_.meet();
  }

 private:
  Meeting& meeting_;
};

/// Runs `lead` as rank 0, and beside it the ranks that follow.
template <class Kind = ThreadRanks>
void with_ranks(int count, const std::function<void(Ranks&)>& lead) {
  ThreadRanks::Meeting meeting(count);
  std::vector<std::unique_ptr<Kind>> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(std::make_unique<Kind>(rank, count, meeting));
  std::vector<std::jthread> others;
  for (int rank = 1; rank < count; ++rank) {
    others.emplace_back([&ranks, rank] { follow(*ranks[static_cast<std::size_t>(rank)]); });
  }
  lead(*ranks[0]);
  dismiss(*ranks[0]);
}

}  // namespace draftproof::test
