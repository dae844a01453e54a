// SPDX-License-Identifier: MIT
// Records every random draw of a run. This finds what enumeration (oracle/exact) cannot: an unknown random stream, a
// discarded draw, one key used for two decisions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ref/acceptance/random_source.h"

namespace draftproof {

struct RecordedDraw {
  std::uint64_t seed = 0;
  Key key;
  int counter = 0;          // how often this key was used before
  std::uint64_t bound = 0;  // the sum of the weights: the draw is a number below it
  bool operator==(const RecordedDraw&) const = default;
};

/// PhiloxSource that records its draws.
class RecordingSource final : public RandomSource {
 public:
  explicit RecordingSource(std::uint64_t seed) : source_(seed) {}
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override;

  const std::vector<RecordedDraw>& draws() const& noexcept { return draws_; }
  std::vector<RecordedDraw> draws() && { return std::move(draws_); }

 private:
  PhiloxSource source_;
  std::vector<RecordedDraw> draws_;
  std::map<Key, int> used_;
};

}  // namespace draftproof
