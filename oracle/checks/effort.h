// SPDX-License-Identifier: MIT
// How much of what can be varied and sampled is: one row per level, which whoever chooses the runs of a trial and the
// checks that ask for more both go by. A level does all that the levels before it do, and nothing in another way.
#pragma once

#include <algorithm>
#include <span>
#include <string>

namespace draftproof {

enum class Tables { best, all_but_scalar, all };  // of kernels: `scalar` takes a hundred times as long
enum class Lengths { none, powers_of_two, all };  // of drafts, besides the named one

struct Effort {
  const char* name;
  // The runs that a trial is made of. Numbers are at most.
  Tables tables;
  int ways_elsewhere;  // of threads and verification, on tables but the first
  Lengths lengths;
  int controls;        // drafts that nobody named
  bool all_serially;   // lengths and controls are verified serially as well
  // What the checks ask for beyond these runs.
  int drafts_again;    // drafts, in the order of the runs, whose request is asked again
  int prompt_pieces;   // of the list below
  int cuts;            // places where a run is cancelled
  int readings;        // of the list below
  int rows_afresh;     // plain rows of a text computed from the whole of it; the others go on with a cache
  int timed_repeats;
};

/// The least first; ends with a row of nulls.
const Effort* all_efforts() noexcept;
const Effort& full_effort() noexcept;
/// Error, naming what there is.
const Effort& effort_by_name(const std::string& name);

/// Sizes of pieces in which a prompt is read; those that come first say the most for their time.
inline constexpr int prompt_piece_sizes[] = {7, 1, 64, 2, 3};

/// A way to read a text: so many tokens a call (0: all of them), with so many wrong draft tokens behind. Those that come
/// first say the most for their time.
struct Reading {
  int chunk;
  int draft_tokens;
};
inline constexpr Reading other_readings[] = {{0, 0}, {16, 16}, {7, 15}, {3, 1}, {2, 7}, {1, 0}, {1, 3}};

template <class Thing, std::size_t size>
std::span<const Thing> first_of(const Thing (&things)[size], int most) {
  return std::span<const Thing>(things).first(std::min(size, static_cast<std::size_t>(most)));
}

}  // namespace draftproof
