// SPDX-License-Identifier: MIT
#include "ref/caches/cache.h"

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
  close(static_cast<int>(path.size()));
}

Fingerprint Cache::digest() const {
  REQUIRE(open_until_ < 0, "only a settled cache has a digest");
  Digest digest;
  digest.add(length_);
  for (const auto& layer : layers_) layer->add_to(digest, length_);
  return digest.value();
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
