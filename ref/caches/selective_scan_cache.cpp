// SPDX-License-Identifier: MIT
#include "ref/caches/selective_scan_cache.h"

#include <span>
#include <utility>

namespace draftproof {

ConvolvedSizes sizes_of(const SelectiveScanShape& shape) noexcept {
  const auto size = [](int count) { return static_cast<std::size_t>(count); };
  return {.channels = shape.channels,
          .conv_width = shape.conv_width,
          .folded = size(shape.state_size) + 2 * size(shape.channels),
          .state = size(shape.channels) * size(shape.state_size)};
}

namespace {

const SelectiveScanShape& checked(const SelectiveScanShape& shape) {
  REQUIRE(shape.channels >= 1 && shape.state_size >= 1, "a layer has channels and states");
  return shape;
}

}  // namespace

SelectiveScanCache::SelectiveScanCache(const SelectiveScanShape& shape, int max_pending_rows, Replay replay)
    : ConvolvedCache(sizes_of(checked(shape)), max_pending_rows), shape_(shape), replay_(std::move(replay)) {
  REQUIRE(replay_ != nullptr, "a recurrent cache can replay rows");
}

SelectiveScanCache::Rows SelectiveScanCache::named(const Pending& pending) const noexcept {
  float* const values = pending.folded + shape_.state_size;
  return {.tail = pending.tail,
          .inputs = pending.inputs,
          .keys = pending.folded,
          .values = values,
          .steps = values + shape_.channels,
          .stride = pending.stride,
          .from = pending.from,
          .to = pending.to};
}

SelectiveScanCache::Rows SelectiveScanCache::claim_rows(const float* rates, int position, int rows) {
  rates_ = rates;
  return named(claim_pending(position, rows));
}

void SelectiveScanCache::replay(int row, int rows, bool from_settled) {
  const Rows pending = named(pending_at(row, from_settled));
  replay_(rates_, pending.folded(), rows, pending.from, pending.to);
}

std::string SelectiveScanCache::layout() const {
  return "selective scan, " + std::to_string(shape_.channels) + " channels of " + std::to_string(shape_.state_size) +
         ", convolution of " + std::to_string(shape_.conv_width);
}

void SelectiveScanCache::add_to(Digest& digest, int) const {
  digest.add(tail());
  digest.add(std::span<const float>(state(), sizes_of(shape_).state));
}

}  // namespace draftproof
