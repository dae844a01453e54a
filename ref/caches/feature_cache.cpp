// SPDX-License-Identifier: MIT
#include "ref/caches/feature_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ref/base/require.h"

namespace draftproof {

FeatureCache::FeatureCache(int width, int capacity) : width_(width), capacity_(capacity) {
  REQUIRE(width >= 1 && capacity >= 1, "a cache has room for at least one row");
  features_ = aligned<float>(static_cast<std::size_t>(width) * static_cast<std::size_t>(capacity));
}

std::span<float> FeatureCache::rows(int from, int to) const {
  const auto width = static_cast<std::size_t>(width_);
  return {features_.get() + static_cast<std::size_t>(from) * width, static_cast<std::size_t>(to - from) * width};
}

void FeatureCache::write(int position, std::span<const float> features) {
  const int count = static_cast<int>(features.size() / static_cast<std::size_t>(width_));
  REQUIRE(features.size() == rows(0, count).size(), "features are whole rows");
  REQUIRE(count <= capacity_ - position, "the text stays within the capacity of the layer");
  for (int row = 0; row < count; ++row) claim(position + row);
  std::ranges::copy(features, rows(position, position + count).begin());
}

std::span<const float> FeatureCache::row(int position) const {
  REQUIRE(0 <= position && position < written(), "only written features can be read");
  return rows(position, position + 1);
}

void FeatureCache::add_to(Digest& digest, int length) const { digest.add(std::span<const float>(rows(0, length))); }

std::string FeatureCache::layout() const { return "features of " + std::to_string(width_) + " floats"; }

LayerSnapshotPtr FeatureCache::snapshot(int from) const {
  const int to = settled();
  if (to <= from || to == 0) return nullptr;
  const int first = std::max(0, from);
  const auto bytes = std::as_bytes(rows(first, to));
  return std::make_shared<LayerSnapshot>(
      LayerSnapshot{.layout = layout(), .from = first, .to = to, .data = {bytes.begin(), bytes.end()}});
}

bool FeatureCache::fits(const LayerSnapshot& snapshot) const {
  return snapshot.layout == layout() && snapshot.form == LayerSnapshot::Form::rows && snapshot.shortest == 0 &&
         0 <= snapshot.from && snapshot.from < snapshot.to &&
         snapshot.data.size() == bytes_per_position(width_) * static_cast<unsigned>(snapshot.to - snapshot.from);
}

void FeatureCache::load(const LayerSnapshot& snapshot, int length) {
  REQUIRE(length <= capacity_, "the text stays within the capacity of the layer");
  if (length <= snapshot.from) return;
  const std::span<float> to = rows(snapshot.from, length);
  std::memcpy(to.data(), snapshot.data.data(), to.size_bytes());
}

void FeatureCache::on_discard(int from, int count) {
  const std::span<float> later = rows(from + count, settled());
  std::memmove(rows(from, from + 1).data(), later.data(), later.size_bytes());
}

}  // namespace draftproof
