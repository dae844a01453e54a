// SPDX-License-Identifier: MIT
#include "oracle/checks/recorded_draws.h"

#include <numeric>

namespace draftproof {

std::size_t RecordingSource::sample_index(const Key& key, std::span<const std::uint64_t> weights) {
  const std::uint64_t bound = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  draws_.push_back({source_.seed(), key, used_[key]++, bound});
  return source_.sample_index(key, weights);
}

}  // namespace draftproof
