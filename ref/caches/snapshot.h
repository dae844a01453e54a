// SPDX-License-Identifier: MIT
// Snapshots: owned, immutable copies of what a settled cache holds, to restore into any cache of the same model, of any
// capacity and any max_pending_rows. Later writes to the cache do not reach them.
//
// A layer's snapshot has one of two forms. `rows` holds the content of positions [from, to), which can be cut at any
// position; restoring it needs a cache that already holds the same text up to `from`. `state` holds all that a later
// row can see at length `to`. It needs nothing from the cache it is restored into, and cannot be cut.
//
//                      full attention, history     sliding window                   recurrent
//   form               rows                        state                            state
//   restorable to      0 ... to                    to; if to <= window, 0 ... to    to
//   live truncation    always                      while length <= window           never
//   merge(p, c)        [p.from, c.to)              c                                c
//   split(s, at)       [from, at), [at, to)        nothing, s                       nothing, s
//
// These refusals are those of ollama's caches (x/mlxrunner/cache), with one more: merging rows that are not adjacent
// aborts.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace draftproof {

struct LayerSnapshot {
  enum class Form { rows, state };

  /// Kind, shape and number format of the layer in words: equal for the same layer of all caches of one model, and
  /// unequal whenever the bytes mean something else.
  std::string layout{};
  Form form = Form::rows;
  int from = 0;      // rows: the first position. state: the first position whose row is stored; `to` if none is
  int to = 0;        // length of the text
  int shortest = 0;  // state: it can be restored to any length from this one to `to`
  std::vector<std::byte> data{};  // rows, and states with shortest < to: equal bytes for each position, in order
};

/// Null: nothing was there to copy, or it was lost in a split.
using LayerSnapshotPtr = std::shared_ptr<const LayerSnapshot>;

/// Joins the snapshots of adjacent ranges. Of two states the child remains; with nothing on either side rows become
/// nothing, and a state remains only as the child. Aborts when rows are not adjacent or layouts differ.
LayerSnapshotPtr merge(const LayerSnapshotPtr& parent, const LayerSnapshotPtr& child);

/// Cuts rows at position `at`; a state goes whole to the child. With `at` outside of (from, to), rows go whole to one
/// side.
std::pair<LayerSnapshotPtr, LayerSnapshotPtr> split(const LayerSnapshotPtr& snapshot, int at);

/// Returns the state at `length`, which is at least 1 and less than `to`; nothing when it cannot be restored to it.
LayerSnapshotPtr shortened(const LayerSnapshot& state, int length);

/// The snapshots of all layers of a cache, which continue a text of `from` positions to one of `to`.
struct Snapshot {
  int from = 0;
  int to = 0;
  std::vector<LayerSnapshotPtr> layers;

  std::size_t bytes() const noexcept;  // of the data; the few words around it do not count
};

/// merge and split, layer by layer. Aborts when parent.to != child.from.
Snapshot merge(const Snapshot& parent, const Snapshot& child);
std::pair<Snapshot, Snapshot> split(const Snapshot& snapshot, int at);

/// The snapshots of consecutive parts of one text, in order; each begins where the one before ends.
using SnapshotPath = std::span<const Snapshot* const>;

/// Returns what this layer restores of a path, in order: the rows, or the last state; nothing if it has neither.
std::vector<const LayerSnapshot*> steps_of(SnapshotPath path, std::size_t layer);

/// Returns whether the steps lead from a text of `begin` positions to one of `length` with no row missing.
bool continues(const std::vector<const LayerSnapshot*>& steps, int begin, int length);

/// Returns whether a path, not empty and from position 0, restores an empty cache to `length`.
bool restores_empty(SnapshotPath path, int length);

}  // namespace draftproof
