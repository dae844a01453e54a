// SPDX-License-Identifier: MIT
#include "oracle/checks/effort.h"

#include <limits>

#include "ref/base/by_name.h"

namespace draftproof {
namespace {

constexpr int all = std::numeric_limits<int>::max();

// clang-format off
constexpr Effort efforts[] = {
    {.name = "quick", .tables = Tables::best, .ways_elsewhere = 0, .lengths = Lengths::none, .controls = 2,
     .all_serially = false, .drafts_again = 1, .prompt_pieces = 1, .cuts = 1, .readings = 3, .fresh_rows = 8,
     .timed_repeats = 1, .sequences = 3, .batches = 1},
    {.name = "standard", .tables = Tables::all_but_scalar, .ways_elsewhere = 1, .lengths = Lengths::powers_of_two,
     .controls = all, .all_serially = false, .drafts_again = 2, .prompt_pieces = 3, .cuts = all, .readings = 5,
     .fresh_rows = 64, .timed_repeats = 3, .sequences = 4,
     .batches = 2},
    {.name = "full", .tables = Tables::all, .ways_elsewhere = all, .lengths = Lengths::all, .controls = all,
     .all_serially = true, .drafts_again = all, .prompt_pieces = all, .cuts = all, .readings = all, .fresh_rows = 256,
     .timed_repeats = 5,
     .sequences = 8, .batches = all},
};
// clang-format on

}  // namespace

std::span<const Effort> all_efforts() noexcept { return efforts; }

const Effort& full_effort() noexcept { return efforts[2]; }

const Effort& effort_by_name(const std::string& name) { return by_name(all_efforts(), name, "--effort:"); }

}  // namespace draftproof
