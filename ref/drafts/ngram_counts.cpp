// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_counts.h"

namespace draftproof {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t hash_of(const Ngram& ngram) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  for (const Token token : ngram.places()) hash = mixed(hash, static_cast<std::uint32_t>(token));
  return hash;
}

std::uint64_t hash_of(const NgramCounts::Count::Key& key) {
  const std::uint64_t hash = mixed(0x9e3779b97f4a7c15u, static_cast<std::uint32_t>(key.ngram));
  return mixed(hash, static_cast<std::uint32_t>(key.token));
}

const NgramCounts::Continuations* NgramCounts::find(const Ngram& ngram) const {
  const int index = ngrams_.find(ngram);
  return index < 0 ? nullptr : &ngrams_[index];
}

int NgramCounts::count(const Ngram& ngram, Token token) const {
  const int index = ngrams_.find(ngram);
  const int counted = index < 0 ? -1 : counts_.find(Count::Key{index, token});
  return counted < 0 ? 0 : counts_[counted].count;
}

void NgramCounts::make_room(std::size_t more) {
  ngrams_.make_room(more);
  counts_.make_room(more);
}

std::vector<NgramCounts::Row> NgramCounts::sorted() const {
  std::vector<Row> rows;
  rows.reserve(counts_.entries().size());
  for (const Count& count : counts_.entries()) {
    rows.push_back({ngrams_[count.key.ngram].key, count.key.token, count.count});
  }
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tie(row.ngram, row.token); });
  return rows;
}

}  // namespace draftproof
