// SPDX-License-Identifier: MIT
// The target's features of a text, one row of floats for each position, as a layer of a head's cache. The next row of
// the head reads the last of them (ref/models/head.h); a text that is cut at an earlier position goes on from that one.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kernels/aligned.h"
#include "ref/caches/cache.h"

namespace draftproof {

class FeatureCache final : public LayerCache {
 public:
  FeatureCache(int width, int capacity);

  /// Writes features [rows][width] at positions [position, position + rows), the next ones of the open transaction.
  void write(int position, std::span<const float> features);
  /// Returns the features [width] of a written position.
  std::span<const float> row(int position) const;

  static std::size_t bytes_per_position(int width) noexcept { return sizeof(float) * static_cast<std::size_t>(width); }

  void add_to(Digest& digest, int length) const override;

  LayerSnapshotPtr snapshot(int from) const override;
  bool fits(const LayerSnapshot& snapshot) const override;
  std::string discard_error(int, int, int) const override { return ""; }

 protected:
  void load(const LayerSnapshot& snapshot, int length) override;
  bool may_truncate() const override { return true; }
  void on_discard(int from, int count) override;

 private:
  std::string layout() const;
  /// Returns the features of positions [from, to).
  std::span<float> rows(int from, int to) const;

  int width_;
  int capacity_;
  Aligned<float> features_;  // [capacity][width]; mapped memory: OS pages that no text reaches cost nothing
};

}  // namespace draftproof
