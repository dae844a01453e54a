// SPDX-License-Identifier: MIT
#include "oracle/checks/effort.h"

#include <limits>

#include "ref/base/error.h"

namespace draftproof {
namespace {

constexpr int all = std::numeric_limits<int>::max();

constexpr Effort efforts[] = {
    {.name = "quick", .tables = Tables::best, .ways_elsewhere = 0, .lengths = Lengths::none, .controls = 2,
     .all_serially = false, .drafts_again = 1, .prompt_pieces = 1, .cuts = 1, .readings = 3, .rows_afresh = 8,
     .timed_repeats = 1},
    {.name = "standard", .tables = Tables::all_but_scalar, .ways_elsewhere = 1, .lengths = Lengths::powers_of_two,
     .controls = all, .all_serially = false, .drafts_again = 2, .prompt_pieces = 3, .cuts = all, .readings = 5,
     .rows_afresh = 64, .timed_repeats = 3},
    {.name = "full", .tables = Tables::all, .ways_elsewhere = all, .lengths = Lengths::all, .controls = all,
     .all_serially = true, .drafts_again = all, .prompt_pieces = all, .cuts = all, .readings = all, .rows_afresh = 256,
     .timed_repeats = 5},
    {},
};

}  // namespace

const Effort* all_efforts() noexcept { return efforts; }

const Effort& full_effort() noexcept { return efforts[2]; }

const Effort& effort_by_name(const std::string& name) {
  std::string known;
  for (const Effort* effort = all_efforts(); effort->name != nullptr; ++effort) {
    if (name == effort->name) return *effort;
    known += (known.empty() ? "" : ", ") + std::string(effort->name);
  }
  throw Error("--effort: '" + name + "' is not known; there are " + known);
}

}  // namespace draftproof
