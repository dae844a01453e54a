// SPDX-License-Identifier: MIT
// Keeps which random numbers of a trace were drawn before: tokens drawn with the same numbers again are no further
// evidence. Memory is bounded; keys that no longer fit count as drawn before.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace draftproof::spectrace {

class UsedNumbers {
 public:
  static constexpr std::size_t ranges_max = std::size_t{1} << 20;
  static constexpr std::size_t ends_max = std::size_t{1} << 18;
  static constexpr std::int64_t none_is_fresh = std::numeric_limits<std::int64_t>::max();

  /// Registers a sequence that draws with the numbers of `key`. Returns the first position whose numbers are fresh.
  /// Until end() is called for the key, no later sequence of the key has fresh numbers.
  std::int64_t begin(std::int64_t key);
  /// Registers that the numbers of `key` were drawn up to `position`; for generators whose numbers follow from key and
  /// position.
  void end(std::int64_t key, std::int64_t position);

  /// Registers the first coin of a sequence. Returns false when a sequence of this key began with the same coin before,
  /// because its generator was then seeded alike.
  bool first_coin(std::int64_t key, double coin);

 private:
  bool add(std::int64_t key);  // false when the key was there, or may have been

  std::map<std::int64_t, std::int64_t> ranges_;  // of keys, [first, second): engines number consecutively
  std::map<std::int64_t, std::int64_t> ends_;    // by key
  std::set<std::pair<std::int64_t, double>> first_coins_;
};

}  // namespace draftproof::spectrace
