// SPDX-License-Identifier: MIT
// Which random numbers of a trace were drawn with before: what is drawn with the same numbers again is no further
// evidence. In memory that is bounded; what no longer fits counts as drawn with.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace draftproof::spectrace {

class UsedNumbers {
 public:
  static constexpr std::size_t runs_max = std::size_t{1} << 20;
  static constexpr std::size_t ends_max = std::size_t{1} << 18;
  static constexpr std::int64_t none_is_fresh = std::numeric_limits<std::int64_t>::max();

  /// A sequence draws with the numbers of that key: the first position from which on they are fresh. Until end() says
  /// otherwise, none is.
  std::int64_t begin(std::int64_t key);
  /// Of a generator whose numbers follow from key and position: they were drawn up to here.
  void end(std::int64_t key, std::int64_t position);

  /// False when a sequence of that key began with that coin before: its generator was seeded alike.
  bool first_coin(std::int64_t key, double coin);

 private:
  bool add(std::int64_t key);  // false when it was there, or may have been

  std::map<std::int64_t, std::int64_t> runs_;  // of keys: [first, second), which is what engines number by
  std::map<std::int64_t, std::int64_t> ends_;  // by key
  std::set<std::pair<std::int64_t, double>> first_coins_;
};

}  // namespace draftproof::spectrace
