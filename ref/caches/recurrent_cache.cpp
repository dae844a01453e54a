// SPDX-License-Identifier: MIT
#include "ref/caches/recurrent_cache.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace draftproof {
namespace {

/// The floats of one pending row.
std::size_t row_floats(const RecurrentShape& shape) {
  return static_cast<std::size_t>(shape.channels()) + static_cast<std::size_t>(shape.key_floats()) +
         static_cast<std::size_t>(shape.value_floats()) + 2 * static_cast<std::size_t>(shape.delta.value_heads);
}

std::size_t floats_of_tail(const RecurrentShape& shape) {
  return static_cast<std::size_t>(shape.conv_width - 1) * static_cast<std::size_t>(shape.channels());
}

}  // namespace

RecurrentCache::RecurrentCache(const RecurrentShape& shape, int max_pending_rows, Replay replay)
    : shape_(shape), max_pending_rows_(max_pending_rows), replay_(std::move(replay)) {
  const DeltaShape& delta = shape.delta;
  REQUIRE(delta.key_heads >= 1 && delta.key_dim >= 1 && delta.value_dim >= 1, "a layer has heads and dimensions");
  REQUIRE(delta.value_heads >= 1 && delta.value_heads % delta.key_heads == 0, "key heads divide value heads");
  REQUIRE(shape.conv_width >= 2, "a convolution has a tail");
  REQUIRE(max_pending_rows >= 1, "a cache has room for at least one row");
  REQUIRE(replay_ != nullptr, "a recurrent cache can replay rows");
  tail_ = aligned<float>(tail_floats());
  working_tail_ = aligned<float>(tail_floats());
  state_ = aligned<float>(delta_state_floats(delta));
  working_state_ = aligned<float>(delta_state_floats(delta));
  rows_ = aligned<float>(row_floats(shape) * static_cast<std::size_t>(max_pending_rows));
}

std::size_t RecurrentCache::fixed_bytes(const RecurrentShape& shape) noexcept {
  return 2 * sizeof(float) * (floats_of_tail(shape) + delta_state_floats(shape.delta));
}

std::size_t RecurrentCache::bytes_per_pending_row(const RecurrentShape& shape) noexcept {
  return sizeof(float) * row_floats(shape);
}

std::size_t RecurrentCache::tail_floats() const noexcept { return floats_of_tail(shape_); }

RecurrentCache::Rows RecurrentCache::rows_at(int row, bool from_settled) const noexcept {
  const std::size_t stride = row_floats(shape_);
  float* const inputs = rows_.get() + static_cast<std::size_t>(row) * stride;
  float* const keys = inputs + shape_.channels();
  float* const values = keys + shape_.key_floats();
  float* const decays = values + shape_.value_floats();
  float* const betas = decays + shape_.delta.value_heads;
  return {.tail = from_settled ? tail_.get() : working_tail_.get(),
          .inputs = inputs,
          .keys = keys,
          .values = values,
          .decays = decays,
          .betas = betas,
          .stride = static_cast<std::ptrdiff_t>(stride),
          .from = from_settled ? state_.get() : working_state_.get(),
          .to = working_state_.get()};
}

RecurrentCache::Rows RecurrentCache::claim_rows(int position, int rows) {
  REQUIRE(rows <= max_pending_rows_ - pending_rows(), "no transaction has more rows than max_pending_rows");
  if (!path().empty()) tail_after(path(), working_tail_.get());
  const Claimed claimed = FoldedCache::claim_rows(position, rows);
  return rows_at(claimed.row, claimed.from_settled);
}

void RecurrentCache::tail_after(std::span<const int> path, float* to) const noexcept {
  const auto width = static_cast<std::size_t>(shape_.conv_width - 1);
  const auto channels = static_cast<std::size_t>(shape_.channels());
  for (std::size_t i = 0; i < width; ++i) {  // ascending, so `to` is written behind what is still read of the tail
    const std::size_t at = path.size() + i;  // in the tail and, after it, the path
    const float* const from = at < width ? tail_.get() + at * channels : rows_at(path[at - width], true).inputs;
    std::copy_n(from, channels, to + i * channels);
  }
}

void RecurrentCache::replay(int row, int rows, bool from_settled) {
  const Rows pending = rows_at(row, from_settled);
  replay_(shape_.delta, pending.folded(), rows, pending.from, pending.to);
}

void RecurrentCache::adopt() {
  tail_after(path(), tail_.get());
  std::swap(state_, working_state_);
}

std::string RecurrentCache::layout() const {
  const DeltaShape& delta = shape_.delta;
  return "gated delta net, " + std::to_string(delta.key_heads) + " key heads of " + std::to_string(delta.key_dim) +
         ", " + std::to_string(delta.value_heads) + " value heads of " + std::to_string(delta.value_dim) +
         ", convolution of " + std::to_string(shape_.conv_width);
}

LayerSnapshotPtr RecurrentCache::snapshot(int) const {
  if (settled() == 0) return nullptr;
  LayerSnapshot copy = {layout(), LayerSnapshot::Form::state, settled(), settled(), settled()};
  const std::size_t tail = sizeof(float) * tail_floats();
  const std::size_t state = sizeof(float) * delta_state_floats(shape_.delta);
  copy.data.resize(tail + state);
  std::memcpy(copy.data.data(), tail_.get(), tail);
  std::memcpy(copy.data.data() + tail, state_.get(), state);
  return std::make_shared<const LayerSnapshot>(std::move(copy));
}

bool RecurrentCache::fits(const LayerSnapshot& snapshot) const {
  return snapshot.layout == layout() && snapshot.form == LayerSnapshot::Form::state && snapshot.from == snapshot.to &&
         snapshot.shortest == snapshot.to && snapshot.to >= 1 &&
         snapshot.data.size() == sizeof(float) * (tail_floats() + delta_state_floats(shape_.delta));
}

void RecurrentCache::load(const LayerSnapshot& snapshot, int) {
  const std::size_t tail = sizeof(float) * tail_floats();
  std::memcpy(tail_.get(), snapshot.data.data(), tail);
  std::memcpy(state_.get(), snapshot.data.data() + tail, snapshot.data.size() - tail);
}

void RecurrentCache::on_clear() {
  std::fill_n(tail_.get(), tail_floats(), 0.0F);
  std::fill_n(state_.get(), delta_state_floats(shape_.delta), 0.0F);
}

void RecurrentCache::add_to(Digest& digest, int) const {
  digest.add(std::span<const float>(tail_.get(), tail_floats()));
  const DeltaShape& delta = shape_.delta;
  for (int head = 0; head < delta.value_heads; ++head) {
    for (int key = 0; key < delta.key_dim; ++key) {
      for (int value = 0; value < delta.value_dim; value += 16) {
        const auto count = static_cast<std::size_t>(std::min(16, delta.value_dim - value));
        digest.add(std::span<const float>(state_.get() + delta_state_at(delta, head, key, value), count));
      }
    }
  }
}

}  // namespace draftproof
