// SPDX-License-Identifier: MIT
#include "ref/caches/snapshot.h"

#include <algorithm>

#include "ref/base/require.h"

namespace draftproof {
namespace {

/// Returns positions [from, to) of rows, or of a state of rows.
LayerSnapshotPtr part_of(const LayerSnapshot& rows, int from, int to) {
  const std::size_t position_bytes = rows.data.size() / static_cast<unsigned>(rows.to - rows.from);
  const auto place = [&](int position) {
    const std::size_t bytes = position_bytes * static_cast<unsigned>(position - rows.from);
    return rows.data.begin() + static_cast<std::ptrdiff_t>(bytes);
  };
  return std::make_shared<LayerSnapshot>(
      LayerSnapshot{rows.layout, rows.form, from, to, rows.shortest, {place(from), place(to)}});
}

}  // namespace

LayerSnapshotPtr merge(const LayerSnapshotPtr& parent, const LayerSnapshotPtr& child) {
  if (child == nullptr || child->form == LayerSnapshot::Form::state) return child;
  if (parent == nullptr) return nullptr;
  REQUIRE(parent->layout == child->layout, "only snapshots of one layer are merged");
  REQUIRE(parent->to == child->from, "only snapshots of adjacent positions are merged");
  std::vector<std::byte> data;
  data.reserve(parent->data.size() + child->data.size());
  data.insert(data.end(), parent->data.begin(), parent->data.end());
  data.insert(data.end(), child->data.begin(), child->data.end());
  return std::make_shared<LayerSnapshot>(
      LayerSnapshot{child->layout, child->form, parent->from, child->to, child->shortest, std::move(data)});
}

std::pair<LayerSnapshotPtr, LayerSnapshotPtr> split(const LayerSnapshotPtr& snapshot, int at) {
  if (snapshot == nullptr || snapshot->form == LayerSnapshot::Form::state || at <= snapshot->from) {
    return {nullptr, snapshot};
  }
  if (at >= snapshot->to) return {snapshot, nullptr};
  return {part_of(*snapshot, snapshot->from, at), part_of(*snapshot, at, snapshot->to)};
}

LayerSnapshotPtr shortened(const LayerSnapshot& state, int length) {
  REQUIRE(state.form == LayerSnapshot::Form::state && 0 < length && length < state.to, "a state becomes a shorter one");
  return state.shortest <= length ? part_of(state, state.from, length) : nullptr;
}

std::size_t Snapshot::bytes() const noexcept {
  std::size_t bytes = 0;
  for (const LayerSnapshotPtr& layer : layers) bytes += layer == nullptr ? 0 : layer->data.size();
  return bytes;
}

Snapshot merge(const Snapshot& parent, const Snapshot& child) {
  REQUIRE(parent.layers.size() == child.layers.size(), "only snapshots of one model are merged");
  REQUIRE(parent.to == child.from, "only snapshots of adjacent positions are merged");
  Snapshot merged{parent.from, child.to, {}};
  for (std::size_t i = 0; i < child.layers.size(); ++i) {
    merged.layers.push_back(merge(parent.layers[i], child.layers[i]));
  }
  return merged;
}

std::pair<Snapshot, Snapshot> split(const Snapshot& snapshot, int at) {
  const int cut = std::clamp(at, snapshot.from, snapshot.to);
  std::pair<Snapshot, Snapshot> parts{{snapshot.from, cut, {}}, {cut, snapshot.to, {}}};
  for (const LayerSnapshotPtr& layer : snapshot.layers) {
    auto [parent, child] = split(layer, at);
    parts.first.layers.push_back(std::move(parent));
    parts.second.layers.push_back(std::move(child));
  }
  return parts;
}

std::vector<const LayerSnapshot*> steps_of(SnapshotPath path, std::size_t layer) {
  std::vector<const LayerSnapshot*> steps;
  for (const Snapshot* snapshot : path) {
    const LayerSnapshot* const part = snapshot->layers[layer].get();
    if (part == nullptr) continue;
    if (part->form == LayerSnapshot::Form::state) steps.clear();
    steps.push_back(part);
  }
  return steps;
}

bool continues(const std::vector<const LayerSnapshot*>& steps, int begin, int length) {
  for (const LayerSnapshot* step : steps) {
    if (step->form == LayerSnapshot::Form::rows ? step->from != begin : step->shortest > length) return false;
    begin = step->to;
  }
  return length <= begin;
}

bool restores_empty(SnapshotPath path, int length) {
  REQUIRE(!path.empty() && path.front()->from == 0, "an empty cache is restored from position 0 on");
  for (std::size_t i = 0; i < path.front()->layers.size(); ++i) {
    const std::vector<const LayerSnapshot*> steps = steps_of(path, i);
    if (steps.empty() || !continues(steps, 0, length)) return false;
  }
  return true;
}

}  // namespace draftproof
