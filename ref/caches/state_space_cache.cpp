// SPDX-License-Identifier: MIT
#include "ref/caches/state_space_cache.h"

#include <span>

namespace draftproof {

ConvolvedSizes sizes_of(const StateSpaceShape& shape) noexcept {
  const auto size = [](int count) { return static_cast<std::size_t>(count); };
  return {.channels = shape.channels(),
          .conv_width = shape.conv_width,
          .folded = size(shape.key_floats()) + size(shape.inner()) + size(shape.heads),
          .state = size(shape.inner()) * size(shape.state_size)};
}

namespace {

const StateSpaceShape& checked(const StateSpaceShape& shape) {
  REQUIRE(shape.heads >= 1 && shape.head_dim >= 1 && shape.state_size >= 1, "a layer has heads and states");
  REQUIRE(shape.groups >= 1 && shape.heads % shape.groups == 0, "groups divide heads");
  return shape;
}

}  // namespace

StateSpaceCache::StateSpaceCache(const StateSpaceShape& shape, int max_pending_rows, Replay replay)
    : ConvolvedCache(sizes_of(checked(shape)), max_pending_rows), shape_(shape), replay_(replay) {
  REQUIRE(replay_ != nullptr, "a recurrent cache can replay rows");
}

StateSpaceCache::Rows StateSpaceCache::named(const Pending& pending) const noexcept {
  float* const values = pending.folded + shape_.key_floats();
  return {.tail = pending.tail,
          .inputs = pending.inputs,
          .keys = pending.folded,
          .values = values,
          .decays = values + shape_.inner(),
          .stride = pending.stride,
          .from = pending.from,
          .to = pending.to};
}

StateSpaceCache::Rows StateSpaceCache::claim_rows(int position, int rows) {
  return named(claim_pending(position, rows));
}

void StateSpaceCache::replay(int row, int rows, bool from_settled) {
  const Rows pending = named(pending_at(row, from_settled));
  replay_(shape_, pending.folded(), rows, pending.from, pending.to);
}

std::string StateSpaceCache::layout() const {
  return "state space, " + std::to_string(shape_.heads) + " heads of " + std::to_string(shape_.head_dim) + ", " +
         std::to_string(shape_.groups) + " groups of " + std::to_string(shape_.state_size) + ", convolution of " +
         std::to_string(shape_.conv_width);
}

void StateSpaceCache::add_to(Digest& digest, int) const {
  digest.add(tail());
  digest.add(std::span<const float>(state(), sizes_of(shape_).state));
}

}  // namespace draftproof
