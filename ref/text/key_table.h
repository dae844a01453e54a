// SPDX-License-Identifier: MIT
// A hash table with 64-bit keys for the look-ups that encoding consists of: one array, no order, nothing is removed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace draftproof {

/// The key ~0 is reserved.
template <typename Value>
class KeyTable {
 public:
  /// Returns false, and changes nothing, when the key has a value already.
  bool insert(std::uint64_t key, Value value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    if (slot.key == key) return false;
    slot = {key, value};
    ++count_;
    return true;
  }

  /// Returns nullptr when the key has no value.
  const Value* find(std::uint64_t key) const {
    if (count_ == 0) return nullptr;
    const Slot& slot = slots_[place_of(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

 private:
  static constexpr std::uint64_t unused = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = unused;
    Value value{};
  };

  /// Returns the place of the key, or of the unused slot that it would take.
  std::size_t place_of(std::uint64_t key) const {
    std::uint64_t mixed = key;  // the finalizer of SplitMix64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    const std::size_t last = slots_.size() - 1;
    std::size_t place = (mixed ^ (mixed >> 31)) & last;
    while (slots_[place].key != key && slots_[place].key != unused) place = (place + 1) & last;
    return place;
  }

  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 16 : 2 * slots_.size()));
    for (const Slot& slot : old) {
      if (slot.key != unused) slots_[place_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two, at most half of them used
  std::size_t count_ = 0;
};

}  // namespace draftproof
