// SPDX-License-Identifier: MIT
#include "ref/caches/recurrent_cache.h"

#include <algorithm>
#include <span>
#include <utility>

namespace draftproof {

ConvolvedSizes sizes_of(const RecurrentShape& shape) noexcept {
  return {.channels = shape.channels(),
          .conv_width = shape.conv_width,
          .folded = static_cast<std::size_t>(shape.key_floats()) + static_cast<std::size_t>(shape.value_floats()) +
                    static_cast<std::size_t>(shape.decay_floats()) + static_cast<std::size_t>(shape.delta.value_heads),
          .state = delta_state_floats(shape.delta)};
}

namespace {

const RecurrentShape& checked(const RecurrentShape& shape) {
  const DeltaShape& delta = shape.delta;
  REQUIRE(delta.key_heads >= 1 && delta.key_dim >= 1 && delta.value_dim >= 1, "a layer has heads and dimensions");
  REQUIRE(delta.value_heads >= 1 && delta.value_heads % delta.key_heads == 0, "key heads divide value heads");
  return shape;
}

}  // namespace

RecurrentCache::RecurrentCache(const RecurrentShape& shape, int max_pending_rows, Replay replay)
    : ConvolvedCache(sizes_of(checked(shape)), max_pending_rows), shape_(shape), replay_(std::move(replay)) {
  REQUIRE(replay_ != nullptr, "a recurrent cache can replay rows");
}

RecurrentCache::Rows RecurrentCache::named(const Pending& pending) const noexcept {
  float* const values = pending.folded + shape_.key_floats();
  float* const decays = values + shape_.value_floats();
  return {.tail = pending.tail,
          .inputs = pending.inputs,
          .keys = pending.folded,
          .values = values,
          .decays = decays,
          .betas = decays + shape_.decay_floats(),
          .stride = pending.stride,
          .from = pending.from,
          .to = pending.to};
}

RecurrentCache::Rows RecurrentCache::claim_rows(int position, int rows) { return named(claim_pending(position, rows)); }

void RecurrentCache::replay(int row, int rows, bool from_settled) {
  const Rows pending = named(pending_at(row, from_settled));
  replay_(shape_.delta, pending.folded(), rows, pending.from, pending.to);
}

std::string RecurrentCache::layout() const {
  const DeltaShape& delta = shape_.delta;
  return "gated delta net, " + std::to_string(delta.key_heads) + " key heads of " + std::to_string(delta.key_dim) +
         ", " + std::to_string(delta.value_heads) + " value heads of " + std::to_string(delta.value_dim) +
         (delta.channel_decays ? " with decays of key dimensions" : "") + ", convolution of " +
         std::to_string(shape_.conv_width);
}

void RecurrentCache::add_to(Digest& digest, int) const {
  digest.add(tail());
  const DeltaShape& delta = shape_.delta;
  for (int head = 0; head < delta.value_heads; ++head) {
    for (int key = 0; key < delta.key_dim; ++key) {
      for (int value = 0; value < delta.value_dim; value += 16) {
        const auto count = static_cast<std::size_t>(std::min(16, delta.value_dim - value));
        digest.add(std::span<const float>(state() + delta_state_at(delta, head, key, value), count));
      }
    }
  }
}

}  // namespace draftproof
