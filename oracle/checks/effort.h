// SPDX-License-Identifier: MIT
// How much `verify` varies and samples: one row per level. The choice of a trial's runs and the checks that run the
// subject again both read it. A level does everything that the levels before it do, in the same way, and more.
#pragma once

#include <algorithm>
#include <span>
#include <string>

namespace draftproof {

enum class Tables { best, all_but_scalar, all };  // kernel tables: `scalar` takes a hundred times as long
enum class Lengths { none, powers_of_two, all };  // draft lengths besides the requested one

/// Numbers are upper limits.
struct Effort {
  const char* name;
  // The runs of a trial.
  Tables tables;
  int ways_elsewhere;  // combinations of threads and verification, on kernel tables other than the first
  Lengths lengths;
  int controls;       // control drafts, which nobody asked for
  bool all_serially;  // draft lengths and controls are also verified serially
  // What the checks run beyond these.
  int drafts_again;   // drafts whose request is run again, in the order of the runs
  int prompt_pieces;  // entries of prompt_piece_sizes
  int cuts;           // places where a run is cancelled
  int readings;       // entries of other_readings
  int fresh_rows;     // plain rows of a text that are recomputed from the whole text; the others use a KV cache
  int timed_repeats;
  int sequences;  // decoded together, at least two
  int batches;    // entries of ways_to_join
};

/// Ordered from the least effort to full_effort().
std::span<const Effort> all_efforts() noexcept;
const Effort& full_effort() noexcept;
/// Throws Error that lists the levels when there is none of that name.
const Effort& effort_by_name(const std::string& name);

/// Chunk sizes of the prefill, those that find most for their time first.
inline constexpr int prompt_piece_sizes[] = {7, 1, 64, 2, 3};

/// A way to read a text: `chunk` tokens per call (0: all at once), followed by `draft_tokens` wrong draft tokens.
struct Reading {
  int chunk;
  int draft_tokens;
};
/// Those that find most for their time first.
inline constexpr Reading other_readings[] = {{0, 0}, {16, 16}, {7, 15}, {3, 1}, {2, 7}, {1, 0}, {1, 3}};

template <class T, std::size_t size>
std::span<const T> first_of(const T (&list)[size], int max) {
  return std::span<const T>(list).first(std::min(size, static_cast<std::size_t>(max)));
}

}  // namespace draftproof
