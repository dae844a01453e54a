// SPDX-License-Identifier: MIT
#include "oracle/ledger.h"

#include <numeric>

namespace draftproof {

std::size_t LedgerChance::pick(const Key& key, std::span<const std::uint64_t> weights) {
  const std::uint64_t bound = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  ledger_.push_back({source_.seed(), key, asked_[key]++, bound});
  return source_.pick(key, weights);
}

}  // namespace draftproof
