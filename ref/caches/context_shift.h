// SPDX-License-Identifier: MIT
// Context shift: a text goes on although its cache is full, because the cache forgets a part of the middle.
//
// When the cache holds `context` positions and another token is to be read, positions [keep, keep + discard) are
// dropped and the later ones move down by `discard` (Cache::discard). So the cache depends on the text and these three
// numbers only, not on how the text was divided among passes: speculation cannot be told from plain decoding.
//
// It is lossy. What moved was computed while the dropped tokens could be seen, and was turned to its new position. It
// is not what reading the shortened text would give.
#pragma once

#include <string>

#include "ref/caches/cache.h"

namespace draftproof {

struct ContextShift {
  int context = 0;  // most positions in the cache
  int keep = 0;     // positions at the start that stay
  int discard = 0;  // positions dropped at once

  bool operator==(const ContextShift&) const = default;

  /// Returns what is wrong with the numbers, a clause; empty when 1 <= discard and 0 <= keep < context - discard.
  std::string error() const;

  /// Returns how many rows can be read next into a cache of `length` positions, at least 1.
  int room(int length) const noexcept { return length == context ? discard : context - length; }

  /// Returns how many positions were dropped when `tokens` tokens of a text have been read.
  int dropped(int tokens) const noexcept;

  /// Makes room for another row in a settled cache of at most `context` positions. Returns how many positions were
  /// dropped: 0 or `discard`.
  int make_room(Cache& cache) const;
};

}  // namespace draftproof
