// SPDX-License-Identifier: MIT
#include "ref/caches/cache.h"

#include <algorithm>
#include <utility>

namespace draftproof {

void LayerCache::open(int until) {
  REQUIRE(until > settled_, "a transaction holds at least one row");
  pending_rows_ = 0;
  path_.clear();
  open_until_ = until;
  on_open();
}

void LayerCache::settle(int length) {
  REQUIRE(length >= settled_, "settled positions are never dropped");
  REQUIRE(length <= written(), "a kept row was never written into this layer");
  path_.resize(static_cast<std::size_t>(length - settled_));
  on_settle();
  settled_ = length;
  open_until_ = length;
  path_.clear();
}

void LayerCache::branch(int position) {
  REQUIRE(settled_ <= position && position <= written(),
          "a branch begins at a pending row or right after the last one");
  path_.resize(static_cast<std::size_t>(position - settled_));
}

void LayerCache::keep(std::span<const int> path) {
  path_.clear();
  for (const int row : path) {
    REQUIRE(row < pending_rows_, "a kept row was never written into this layer");
    restore(row, written());
    path_.push_back(row);
  }
  REQUIRE(written() <= open_until_, "a path lies within the transaction");
}

void LayerCache::restore(int, int) { REQUIRE(false, "this kind of cache supports no trees"); }

void LayerCache::claim(int position) {
  REQUIRE(position < open_until_, "rows are written only inside the open transaction");
  REQUIRE(position == written(), "rows are written once each, in ascending order");
  path_.push_back(pending_rows_++);
}

LayerSnapshotPtr LayerCache::snapshot(int) const { return nullptr; }

bool LayerCache::fits(const LayerSnapshot&) const { return false; }

void LayerCache::load(const LayerSnapshot&, int) { REQUIRE(false, "this kind of cache has no snapshots"); }

bool LayerCache::can_restore(const LayerSnapshot* snapshot, int length) const {
  if (length < 0) return false;
  if (snapshot == nullptr) return length == settled_ || (length < settled_ && may_truncate());
  if (length > snapshot->to) return false;
  return snapshot->form == LayerSnapshot::Form::rows ? snapshot->from <= settled_ : snapshot->shortest <= length;
}

void LayerCache::restore_snapshot(const LayerSnapshot* snapshot, int length) {
  REQUIRE(can_restore(snapshot, length), "only a length that can be restored is restored");
  if (snapshot != nullptr) {
    REQUIRE(fits(*snapshot), "a snapshot is restored into the same layer of a cache of the same model");
    load(*snapshot, length);
  }
  settled_ = length;
  open_until_ = length;
}

void LayerCache::clear() {
  on_clear();
  settled_ = 0;
  open_until_ = 0;
}

std::string LayerCache::discard_error(int, int, int) const {
  return "keeps one state of the whole text, of which no part can be dropped";
}

void LayerCache::on_discard(int, int) { REQUIRE(false, "this kind of cache cannot drop positions"); }

void LayerCache::discard(int from, int count) {
  REQUIRE(discard_error(settled_, from, count).empty(), "only positions that can be dropped are dropped");
  on_discard(from, count);
  settled_ -= count;
  open_until_ = settled_;
}

Cache::Cache(std::vector<std::unique_ptr<LayerCache>> layers, int capacity, int max_pending_rows)
    : layers_(std::move(layers)), capacity_(capacity), max_pending_rows_(max_pending_rows) {
  REQUIRE(capacity_ >= 1 && max_pending_rows_ >= 1, "a cache has room for at least one row");
  for (const auto& layer : layers_) REQUIRE(layer != nullptr, "every layer has a cache");
}

Transaction Cache::begin(int pending_rows) {
  REQUIRE(open_until_ < 0, "a cache has at most one open transaction");
  REQUIRE(1 <= pending_rows && pending_rows <= max_pending_rows_,
          "a transaction holds between one row and max_pending_rows");
  REQUIRE(pending_rows <= capacity_ - length_, "the transaction ends within the capacity");
  open_until_ = length_ + pending_rows;
  for (const auto& layer : layers_) layer->open(open_until_);
  return Transaction(*this);
}

void Cache::wrote(int rows) {
  REQUIRE(open_until_ >= 0, "rows are written inside a transaction");
  REQUIRE(1 <= rows && rows <= open_until_ - end_, "rows are written inside the open transaction");
  end_ += rows;
}

void Cache::close(int rows) {
  length_ += rows;
  end_ = length_;
  open_until_ = -1;
  for (const auto& layer : layers_) layer->settle(length_);
}

void Cache::close(std::span<const int> path) {
  for (const auto& layer : layers_) layer->keep(path);
  Cache::close(static_cast<int>(path.size()));
}

Fingerprint Cache::digest() const {
  REQUIRE(open_until_ < 0, "only a settled cache has a digest");
  Digest digest;
  digest.add(length_);
  for (const auto& layer : layers_) layer->add_to(digest, length_);
  return digest.value();
}

Snapshot Cache::snapshot(int from) const {
  REQUIRE(open_until_ < 0, "only a settled cache has snapshots");
  Snapshot snapshot{std::clamp(from, 0, length_), length_, {}};
  for (const auto& layer : layers_) snapshot.layers.push_back(layer->snapshot(from));
  return snapshot;
}

bool Cache::fits(const Snapshot& snapshot) const {
  if (snapshot.layers.size() != layers_.size()) return false;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (snapshot.layers[i] != nullptr && !layers_[i]->fits(*snapshot.layers[i])) return false;
  }
  return true;
}

bool Cache::can_restore(SnapshotPath path, int length) const {
  REQUIRE(open_until_ < 0, "only a settled cache is restored");
  for (std::size_t i = 0; i < path.size(); ++i) {
    REQUIRE(path[i]->layers.size() == layers_.size(), "a snapshot is restored into a cache of the same model");
    REQUIRE(i == 0 || path[i]->from == path[i - 1]->to, "the snapshots of a path are of adjacent positions");
  }
  const int begin = path.empty() ? length_ : path.front()->from;
  const int end = path.empty() ? length_ : path.back()->to;
  if (length < 0 || length > end || length > capacity_) return false;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::vector<const LayerSnapshot*> steps = steps_of(path, i);
    if (steps.empty()) {
      if (length > begin || !layers_[i]->can_restore(nullptr, length)) return false;
    } else {
      if (!continues(steps, begin, length)) return false;
      if (!layers_[i]->can_restore(steps.front(), std::min(length, steps.front()->to))) return false;
    }
  }
  return true;
}

bool Cache::restore(SnapshotPath path, int length) {
  if (!can_restore(path, length)) return false;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::vector<const LayerSnapshot*> steps = steps_of(path, i);
    if (steps.empty()) layers_[i]->restore_snapshot(nullptr, length);
    for (const LayerSnapshot* step : steps) {
      if (step == steps.front() || step->from < length) layers_[i]->restore_snapshot(step, std::min(length, step->to));
    }
  }
  length_ = length;
  end_ = length;
  return true;
}

bool Cache::restore(const Snapshot& snapshot, int length) {
  const Snapshot* const path[] = {&snapshot};
  return restore(path, length);
}

void Cache::clear() {
  REQUIRE(open_until_ < 0, "only a settled cache is cleared");
  for (const auto& layer : layers_) layer->clear();
  length_ = 0;
  end_ = 0;
}

std::string Cache::discard_error(int length, int from, int count) const {
  REQUIRE(from >= 0 && count >= 1 && length <= capacity_ && from <= length - count,
          "positions that the cache can hold are dropped");
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (const std::string why = layers_[i]->discard_error(length, from, count); !why.empty()) {
      return "layer " + std::to_string(i) + " " + why;
    }
  }
  return "";
}

void Cache::discard(int from, int count) {
  REQUIRE(open_until_ < 0, "positions are dropped from a settled cache");
  REQUIRE(discard_error(length_, from, count).empty(), "only positions that can be dropped are dropped");
  try {
    for (const auto& layer : layers_) layer->discard(from, count);
  } catch (...) {
    clear();
    throw;
  }
  length_ -= count;
  end_ = length_;
}

Transaction::~Transaction() {
  if (cache_ != nullptr) cache_->close(0);
}

void Transaction::commit(int rows) {
  REQUIRE(cache_ != nullptr, "a transaction commits once");
  REQUIRE(0 <= rows && rows <= cache_->end_ - cache_->length_, "only rows that were written can be kept");
  std::exchange(cache_, nullptr)->close(rows);
}

void Transaction::commit(std::span<const int> path) {
  REQUIRE(cache_ != nullptr, "a transaction commits once");
  for (const int row : path) {
    REQUIRE(0 <= row && row < cache_->end_ - cache_->length_, "only rows that were written can be kept");
  }
  std::exchange(cache_, nullptr)->close(path);
}

}  // namespace draftproof
