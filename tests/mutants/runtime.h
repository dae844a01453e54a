// SPDX-License-Identifier: MIT
// What run.py writes into sources: `on(7)` is true where mutant 7 runs.
#pragma once

#include <type_traits>

namespace draftproof::mutants {

/// The mutant that runs; 0: none.
extern int chosen;

/// Marks a mutant as reached.
void reach(int id) noexcept;

extern bool recording;

constexpr bool on(int id) {
  if (std::is_constant_evaluated()) return false;
  if (recording) reach(id);
  return id == chosen;
}

}  // namespace draftproof::mutants
