// SPDX-License-Identifier: MIT
#include "ref/drafts/legacy_ngram_map.h"

namespace draftproof {
namespace {

constexpr int count_max = 16380;

}  // namespace

void LegacyNgramMapDraft::reset() {
  first_length_ = 0;
  table_ = {};
  last_in_table_ = 0;
  entries_ = {};
}

std::uint32_t& LegacyNgramMapDraft::slot_of(std::span<const Token> ngram) {
  std::uint32_t hash = 0;
  for (const Token token : ngram) hash = hash * 2654435761U + static_cast<std::uint32_t>(token);
  return table_[hash % table_size];
}

/// Returns the place of an occurrence; 0 when none is found. Fills the table.
std::size_t LegacyNgramMapDraft::find(std::span<const Token> text) {
  table_.resize(table_size);
  const auto key = text.last(n_);
  const auto here = [&](std::size_t place) { return std::ranges::equal(text.subspan(place, n_), key); };
  const std::size_t margin = n_ + m_ + 1;
  const std::size_t last = text.size() - 1 - margin;
  // The places that are not in the table, as two ranges [above, from], from the end down.
  struct Range {
    std::size_t from;
    std::size_t above;
  };
  const Range ranges[] = {{first_length_ > margin ? first_length_ - margin : 0, last_in_table_},
                          {last, std::max(first_length_, last_in_table_)}};
  std::size_t found = 0;
  if (const std::uint32_t place = slot_of(key); place != 0 && place < last && here(place)) found = place;
  for (const auto [from, above] : ranges) {
    for (std::size_t place = from; found == 0 && place > above; --place) {
      if (here(place)) found = place;
    }
  }
  for (const auto [from, above] : ranges) {
    for (std::size_t place = from; place > above; --place) {
      std::uint32_t& slot = slot_of(text.subspan(place, n_));
      if (slot == 0) slot = static_cast<std::uint32_t>(place);
    }
  }
  last_in_table_ = std::max(last, last_in_table_);
  return found;
}

/// Returns the index of the entry of the n-gram found here, new when there is none.
std::size_t LegacyNgramMapDraft::entry_of(std::span<const Token> text, std::size_t place) {
  const auto known = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return std::ranges::equal(text.subspan(entry.place, n_), text.subspan(place, n_));
  });
  if (known != entries_.end()) return static_cast<std::size_t>(known - entries_.begin());
  entries_.push_back({.place = place});
  for (Value& value : entries_.back().values) value.accepted = settings_.m;
  return entries_.size() - 1;
}

void LegacyNgramMapDraft::count_values(std::span<const Token> text, std::size_t place, Entry& entry) const {
  const auto value_at = [&](std::size_t from) { return text.subspan(from, m_); };
  for (std::size_t i = entry.counted; i <= place; ++i) {
    if (!std::ranges::equal(text.subspan(i, n_), text.last(n_))) continue;
    for (Value& value : entry.values) {
      if (value.from == 0) value = {.from = i + n_, .count = 0, .accepted = settings_.m};
      if (!std::ranges::equal(value_at(value.from), value_at(i + n_))) continue;
      value.count = std::min(value.count + 1, count_max);
      break;
    }
  }
  entry.counted = place;
}

std::vector<Token> LegacyNgramMapDraft::draft(std::span<const Token> text) {
  if (text.size() - 1 < 2 * n_ + m_) return {};
  const std::size_t place = find(text);
  if (place == 0) return {};
  drafted_ = {.entry = entry_of(text, place)};
  Entry& entry = entries_[drafted_.entry];
  entry.found = std::min(entry.found + 1, count_max);
  if (settings_.values) {
    if (entry.found < settings_.min_hits) return {};
    count_values(text, place, entry);
    const auto best = std::ranges::max_element(entry.values, {}, &Value::count);
    drafted_.value = static_cast<std::size_t>(best - entry.values.begin());
    int others = -best->count;
    for (const Value& value : entry.values) others += value.count;
    if (best->count < 2 * others) return {};
  }
  const auto tokens = text.subspan(place + n_, std::min(m_, static_cast<std::size_t>(drafted_.accepted(entries_))));
  return {tokens.begin(), tokens.end()};
}

}  // namespace draftproof
