// SPDX-License-Identifier: MIT
#include "ref/decoding/fastest_threads.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/threads.h"
#include "ref/base/stopwatch.h"

namespace draftproof {
namespace {

constexpr int text_length_max = 64;
constexpr int rows_to_verify = 8;
constexpr double seconds_to_choose = 1;
constexpr int turns_min = 3;
constexpr int turns_max = 40;
constexpr double as_fast = 1.02;  // times the least: differences below are noise

std::vector<ThreadsTime> numbers_to_measure(int max) {
  std::vector<ThreadsTime> numbers;
  for (int n = 1; n < max; n *= 2) numbers.push_back({n, std::numeric_limits<double>::infinity()});
  numbers.push_back({max, std::numeric_limits<double>::infinity()});
  return numbers;
}

}  // namespace

int fastest_of(std::span<const ThreadsTime> times) {
  const auto sooner = [](const ThreadsTime& a, const ThreadsTime& b) { return a.seconds < b.seconds; };
  ThreadsTime best = *std::ranges::min_element(times, sooner);
  const double enough = best.seconds * as_fast;
  for (const ThreadsTime& one : times) {
    if (one.seconds <= enough && one.threads < best.threads) best = one;
  }
  return best.threads;
}

int fastest_threads(Model& target, int max) {
  if (max == 1 || target.context() < 2) return max;
  const int before = threads();
  const int length = std::clamp(target.context() - rows_to_verify, 1, text_length_max);
  const int rows = std::clamp(target.context() - length, 1, rows_to_verify);
  std::vector<Token> text;
  for (int i = 0; i < length + rows; ++i) text.push_back((i * 37 + 1) % target.vocabulary());

  const auto cache = target.new_cache(length + rows, std::max(length, rows));
  Outputs outputs;
  const auto pass = [&](int first, int count, int logits_from) {
    const auto tokens =
        std::span<const Token>(text).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    forward_alone(target, {.cache = cache.get(), .tokens = tokens, .taps = {}, .logits_from = logits_from}, outputs);
  };
  const auto rolled_back = [&](int count) {
    const Transaction unread = cache->begin(count);
    pass(length, count, 0);
  };
  {
    Transaction reading = cache->begin(length);
    pass(0, length, length);
    reading.commit(length);
  }

  std::vector<ThreadsTime> times = numbers_to_measure(max);
  double spent = 0;
  for (int turn = 0; turn < turns_max && (turn < turns_min || spent < seconds_to_choose); ++turn) {
    const Stopwatch all(spent);
    for (ThreadsTime& time : times) {
      set_threads(time.threads);
      with_workers([&] {
        rolled_back(1);  // leaves the CPU's caches as a decoding loop finds them
        double seconds = 0;
        {
          const Stopwatch watch(seconds);
          rolled_back(1);
          rolled_back(rows);
        }
        time.seconds = std::min(time.seconds, seconds);
      });
    }
  }
  set_threads(before);
  return fastest_of(times);
}

}  // namespace draftproof
