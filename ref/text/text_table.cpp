// SPDX-License-Identifier: MIT
#include "ref/text/text_table.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace draftproof {
namespace {

std::uint32_t hash_of(std::string_view text) {
  const std::uint64_t hash = std::hash<std::string_view>()(text);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

std::size_t TextTable::place_of(std::string_view text, std::uint32_t hash) const {
  const std::size_t last = slots_.size() - 1;
  std::size_t place = hash & last;
  while (slots_[place].entry >= 0 && (slots_[place].hash != hash || entries_[slots_[place].entry].text != text)) {
    place = (place + 1) & last;
  }
  return place;
}

bool TextTable::insert(std::string_view text, Token token) {
  if (2 * (entries_.size() + 1) > slots_.size()) grow_to(slots_.empty() ? 16 : 2 * slots_.size());
  const std::uint32_t hash = hash_of(text);
  Slot& slot = slots_[place_of(text, hash)];
  if (slot.entry >= 0) return false;
  slot = {hash, static_cast<std::int32_t>(entries_.size())};
  entries_.push_back({std::string(text), token});
  longest_ = std::max(longest_, text.size());
  return true;
}

void TextTable::expect(std::string_view text) const {
  if (!slots_.empty()) __builtin_prefetch(&slots_[hash_of(text) & (slots_.size() - 1)]);
}

Token TextTable::find(std::string_view text) const {
  if (entries_.empty() || text.size() > longest_) return -1;
  const Slot& slot = slots_[place_of(text, hash_of(text))];
  return slot.entry >= 0 ? entries_[slot.entry].token : -1;
}

void TextTable::reserve(std::size_t texts) {
  entries_.reserve(texts);
  if (const std::size_t slots = std::bit_ceil(2 * texts); slots > slots_.size()) grow_to(slots);
}

void TextTable::grow_to(std::size_t slots) {
  slots_.assign(slots, Slot());
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    const std::uint32_t hash = hash_of(entries_[entry].text);
    slots_[place_of(entries_[entry].text, hash)] = {hash, static_cast<std::int32_t>(entry)};
  }
}

}  // namespace draftproof
