// SPDX-License-Identifier: MIT
// Every random answer of a run, written down. What enumerated randomness cannot see: that a stream is used which nobody
// was given, that a number is drawn and thrown away, that two questions which need two numbers bear one key.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "ref/acceptance/chance.h"

namespace draftproof {

struct Entry {
  std::uint64_t seed = 0;
  Key key;
  int counter = 0;          // how often this key was asked before
  std::uint64_t bound = 0;  // the answer was drawn below it
  bool operator==(const Entry&) const = default;
};

/// SeededChance that keeps a ledger.
class LedgerChance final : public Chance {
 public:
  explicit LedgerChance(std::uint64_t seed) : source_(seed) {}
  std::size_t pick(const Key& key, std::span<const std::uint64_t> weights) override;

  const std::vector<Entry>& ledger() const& noexcept { return ledger_; }
  std::vector<Entry> ledger() && { return std::move(ledger_); }

 private:
  SeededChance source_;
  std::vector<Entry> ledger_;
  std::map<Key, int> asked_;
};

}  // namespace draftproof
