// SPDX-License-Identifier: MIT
#include "kernels/ranks.h"

namespace draftproof {

HeldHeads held_heads(int heads, int kv_heads, const Ranks* ranks, int rank) noexcept {
  if (ranks == nullptr) return {0, kv_heads, 0, heads};
  const int group = heads / kv_heads;
  const int count = ranks->count();
  if (kv_heads >= count) {
    const int first = ranks->first_of(kv_heads, rank);
    const int held = ranks->first_of(kv_heads, rank + 1) - first;
    return {first, held, first * group, held * group};
  }
  const int kv = ranks->first_of(kv_heads, rank);
  const auto first_holder = [&](int head) { return (head * count + kv_heads - 1) / kv_heads; };
  const int holders = first_holder(kv + 1) - first_holder(kv);
  const int place = rank - first_holder(kv);
  const int first = group * place / holders;
  return {kv, 1, kv * group + first, group * (place + 1) / holders - first};
}

HeldHeads held_heads(int heads, int kv_heads, const Ranks* ranks) noexcept {
  return held_heads(heads, kv_heads, ranks, ranks == nullptr ? 0 : ranks->rank());
}

std::vector<int> bounds_of(int things, const Ranks& ranks) {
  std::vector<int> bounds;
  for (int rank = 0; rank <= ranks.count(); ++rank) bounds.push_back(ranks.first_of(things, rank));
  return bounds;
}

std::vector<int> head_bounds(int heads, int kv_heads, const Ranks& ranks) {
  std::vector<int> bounds = {0};
  for (int rank = 0; rank < ranks.count(); ++rank) bounds.push_back(held_heads(heads, kv_heads, &ranks, rank).end());
  return bounds;
}

std::vector<int> kv_head_bounds(int kv_heads, const Ranks& ranks) {
  std::vector<int> bounds = {0};
  for (int rank = 0; rank < ranks.count(); ++rank) {
    bounds.push_back(held_heads(kv_heads, kv_heads, &ranks, rank).kv_end());
  }
  return bounds;
}

}  // namespace draftproof
