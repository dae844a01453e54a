// SPDX-License-Identifier: MIT
#include "ref/caches/convolved_cache.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace draftproof {

ConvolvedCache::ConvolvedCache(const ConvolvedSizes& sizes, int max_pending_rows)
    : sizes_(sizes), max_pending_rows_(max_pending_rows) {
  REQUIRE(sizes.channels >= 1 && sizes.conv_width >= 2, "a convolution has a tail");
  REQUIRE(max_pending_rows >= 1, "a cache has room for at least one row");
  tail_ = aligned<float>(sizes.tail());
  working_tail_ = aligned<float>(sizes.tail());
  state_ = aligned<float>(sizes.state);
  working_state_ = aligned<float>(sizes.state);
  rows_ = aligned<float>(sizes.row() * static_cast<std::size_t>(max_pending_rows));
}

ConvolvedCache::Pending ConvolvedCache::pending_at(int row, bool from_settled) const noexcept {
  const std::size_t stride = sizes_.row();
  float* const inputs = rows_.get() + static_cast<std::size_t>(row) * stride;
  return {.tail = from_settled ? tail_.get() : working_tail_.get(),
          .inputs = inputs,
          .folded = inputs + sizes_.channels,
          .stride = static_cast<std::ptrdiff_t>(stride),
          .from = from_settled ? state_.get() : working_state_.get(),
          .to = working_state_.get()};
}

ConvolvedCache::Pending ConvolvedCache::claim_pending(int position, int rows) {
  REQUIRE(rows <= max_pending_rows_ - pending_rows(), "no transaction has more rows than max_pending_rows");
  if (!path().empty()) tail_after(path(), working_tail_.get());
  const Claimed claimed = claim_rows(position, rows);
  return pending_at(claimed.row, claimed.from_settled);
}

void ConvolvedCache::tail_after(std::span<const int> path, float* to) const noexcept {
  const auto width = static_cast<std::size_t>(sizes_.conv_width - 1);
  const auto channels = static_cast<std::size_t>(sizes_.channels);
  for (std::size_t i = 0; i < width; ++i) {  // ascending, so `to` is written behind what is still read of the tail
    const std::size_t at = path.size() + i;  // in the tail and, after it, the path
    const float* const from = at < width ? tail_.get() + at * channels : pending_at(path[at - width], true).inputs;
    std::copy_n(from, channels, to + i * channels);
  }
}

void ConvolvedCache::adopt() {
  tail_after(path(), tail_.get());
  std::swap(state_, working_state_);
}

LayerSnapshotPtr ConvolvedCache::snapshot(int) const {
  if (settled() == 0) return nullptr;
  LayerSnapshot copy = {layout(), LayerSnapshot::Form::state, settled(), settled(), settled()};
  const std::size_t tail = sizeof(float) * sizes_.tail();
  const std::size_t state = sizeof(float) * sizes_.state;
  copy.data.resize(tail + state);
  std::memcpy(copy.data.data(), tail_.get(), tail);
  if (state > 0) std::memcpy(copy.data.data() + tail, state_.get(), state);
  return std::make_shared<const LayerSnapshot>(std::move(copy));
}

bool ConvolvedCache::fits(const LayerSnapshot& snapshot) const {
  return snapshot.layout == layout() && snapshot.form == LayerSnapshot::Form::state && snapshot.from == snapshot.to &&
         snapshot.shortest == snapshot.to && snapshot.to >= 1 &&
         snapshot.data.size() == sizeof(float) * (sizes_.tail() + sizes_.state);
}

void ConvolvedCache::load(const LayerSnapshot& snapshot, int) {
  const std::size_t tail = sizeof(float) * sizes_.tail();
  std::memcpy(tail_.get(), snapshot.data.data(), tail);
  if (sizes_.state > 0) std::memcpy(state_.get(), snapshot.data.data() + tail, snapshot.data.size() - tail);
}

void ConvolvedCache::on_clear() {
  std::fill_n(tail_.get(), sizes_.tail(), 0.0F);
  std::fill_n(state_.get(), sizes_.state, 0.0F);
}

}  // namespace draftproof
