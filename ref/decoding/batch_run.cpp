// SPDX-License-Identifier: MIT
#include "ref/decoding/batch_run.h"

#include <algorithm>
#include <vector>

namespace draftproof {

void run_batch(Scheduler& scheduler, std::span<const Scheduled> sequences) {
  std::vector<const Scheduled*> coming;
  for (const Scheduled& one : sequences) {
    coming.push_back(&one);
    if (const int rounds = one.timetable.cancelled_after; rounds != Timetable::never) {
      one.sequence->watch(
          {[rounds](const Trace& trace) { return std::ssize(trace.rounds) >= rounds ? Next::cancel : Next::go_on; }},
          nullptr);
    }
  }
  std::ranges::stable_sort(coming, {}, [](const Scheduled* one) { return one->timetable.joins_after; });
  std::vector<const Scheduled*> to_preempt;
  for (const Scheduled& one : sequences) {
    if (one.timetable.preempted_after != Timetable::never) to_preempt.push_back(&one);
  }
  auto next = coming.begin();
  for (int passes = 0;; ++passes) {
    const auto join = [&] {
      scheduler.add(*(*next)->sequence, (*next)->cost);
      ++next;
    };
    while (next != coming.end() && (*next)->timetable.joins_after <= passes) join();
    if (!scheduler.step()) {
      if (next == coming.end()) return;
      join();
    }
    std::erase_if(to_preempt, [&](const Scheduled* one) {
      const bool due = std::ssize(one->sequence->trace().rounds) >= one->timetable.preempted_after;
      if (due) scheduler.preempt(*one->sequence);
      return due;
    });
  }
}

}  // namespace draftproof
