// SPDX-License-Identifier: MIT
#include "oracle/spectrace/used_numbers.h"

#include <algorithm>

namespace draftproof::spectrace {

std::int64_t UsedNumbers::begin(std::int64_t key) {
  if (add(key)) return 0;
  const auto found = ends_.find(key);
  if (found == ends_.end()) return none_is_fresh;
  const std::int64_t end = found->second;
  ends_.erase(found);
  return end;
}

void UsedNumbers::end(std::int64_t key, std::int64_t position) {
  if (ends_.size() == ends_max && !ends_.contains(key)) return;
  std::int64_t& end = ends_[key];
  end = std::max(end, position);
}

bool UsedNumbers::first_coin(std::int64_t key, double coin) {
  return first_coins_.size() < ends_max && first_coins_.emplace(key, coin).second;
}

bool UsedNumbers::add(std::int64_t key) {
  const auto after = ranges_.upper_bound(key);
  const auto before = after == ranges_.begin() ? ranges_.end() : std::prev(after);
  if (before != ranges_.end() && key < before->second) return false;
  const bool joins_before = before != ranges_.end() && before->second == key;
  const bool joins_after = after != ranges_.end() && after->first == key + 1;
  if (!joins_before && !joins_after && ranges_.size() == ranges_max) return false;
  const std::int64_t end = joins_after ? after->second : key + 1;
  if (joins_after) ranges_.erase(after);
  if (joins_before) before->second = end;
  else ranges_.emplace(key, end);
  return true;
}

}  // namespace draftproof::spectrace
