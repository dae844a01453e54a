// SPDX-License-Identifier: MIT
#include "tools/suggestion.h"

#include <algorithm>
#include <cstddef>

namespace draftproof {
namespace {

/// Damerau-Levenshtein distance, where no part is edited twice.
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t edits_max = 4;
  std::string best;
  std::size_t fewest = edits_max + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t max = std::min(edits_max, candidate.size() / 3);
    const std::size_t longer = std::max(word.size(), candidate.size());
    if (longer - std::min(word.size(), candidate.size()) > max) continue;  // a long word costs nothing
    const std::size_t count = edits(word, candidate);
    if (count > max || count >= fewest) continue;
    fewest = count;
    best = candidate;
  }
  return best;
}

}  // namespace draftproof
