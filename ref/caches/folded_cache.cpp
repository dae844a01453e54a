// SPDX-License-Identifier: MIT
#include "ref/caches/folded_cache.h"

#include <algorithm>

namespace draftproof {

FoldedCache::Claimed FoldedCache::claim_rows(int position, int rows) {
  REQUIRE(rows >= 1, "at least one row is claimed");
  fold(path());
  const Claimed claimed = {pending_rows(), folded_.empty()};
  for (int row = 0; row < rows; ++row) {
    claim(position + row);
    folded_.push_back(claimed.row + row);
  }
  return claimed;
}

void FoldedCache::fold(std::span<const int> path) {
  if (folded_.size() > path.size() || !std::equal(folded_.begin(), folded_.end(), path.begin())) folded_.clear();
  while (folded_.size() < path.size()) {
    const std::size_t first = folded_.size();
    std::size_t end = first + 1;  // rows with consecutive numbers are replayed together
    while (end < path.size() && path[end] == path[end - 1] + 1) ++end;
    replay(path[first], static_cast<int>(end - first), folded_.empty());
    folded_.insert(folded_.end(), path.begin() + static_cast<std::ptrdiff_t>(first),
                   path.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

void FoldedCache::restore(int, int) {}  // on_settle replays the path

void FoldedCache::on_settle() {
  if (path().empty()) return;
  fold(path());
  adopt();
}

}  // namespace draftproof
