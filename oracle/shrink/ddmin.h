// SPDX-License-Identifier: MIT
// Delta debugging (Zeller and Hildebrandt 2002): reduces a list that fails to a part that still fails and from which no
// single element can be left out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace draftproof {

/// `fails(list)` must be true. At least `min` elements stay, in their order. `fails` may return false from some call
/// on to end the search early; the result is the last list that failed.
template <class T, class Fails>
std::vector<T> ddmin(std::vector<T> list, const Fails& fails, std::size_t min = 0) {
  std::size_t parts = 2;
  while (list.size() > min) {
    parts = std::min(parts, list.size());
    const std::size_t size = list.size();
    bool smaller = false;
    for (std::size_t part = 0; part < parts && !smaller; ++part) {
      const std::size_t from = part * size / parts;
      const std::size_t to = (part + 1) * size / parts;
      if (size - (to - from) < min) continue;
      std::vector<T> rest(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(from));
      rest.insert(rest.end(), list.begin() + static_cast<std::ptrdiff_t>(to), list.end());
      if (!fails(rest)) continue;
      list = std::move(rest);
      parts = std::max<std::size_t>(2, parts - 1);
      smaller = true;
    }
    if (smaller) continue;
    if (parts == size) break;
    parts = std::min(2 * parts, size);
  }
  return list;
}

}  // namespace draftproof
