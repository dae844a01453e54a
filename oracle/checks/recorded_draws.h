// SPDX-License-Identifier: MIT
// Every random answer of a run, written down. What enumerated randomness cannot see: that a stream is used which nobody
// was given, that a number is drawn and thrown away, that two questions which need two numbers bear one key.
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
  int counter = 0;          // how often this key was asked before
  std::uint64_t bound = 0;  // the answer was drawn below it
  bool operator==(const RecordedDraw&) const = default;
};

/// PhiloxSource that keeps a ledger.
class RecordingSource final : public RandomSource {
 public:
  explicit RecordingSource(std::uint64_t seed) : source_(seed) {}
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override;

  const std::vector<RecordedDraw>& ledger() const& noexcept { return ledger_; }
  std::vector<RecordedDraw> ledger() && { return std::move(ledger_); }

 private:
  PhiloxSource source_;
  std::vector<RecordedDraw> ledger_;
  std::map<Key, int> asked_;
};

}  // namespace draftproof
