// SPDX-License-Identifier: MIT
#include "ref/caches/history_cache.h"

#include "ref/base/require.h"

namespace draftproof {

void HistoryCache::write(int position, Token token) {
  claim(position);
  pending_.push_back(token);
  tokens_.resize(static_cast<std::size_t>(position));
  tokens_.push_back(token);
}

void HistoryCache::on_open() { pending_.clear(); }

void HistoryCache::restore(int row, int position) {
  tokens_.resize(static_cast<std::size_t>(position));
  tokens_.push_back(pending_.at(static_cast<std::size_t>(row)));
}

std::span<const Token> HistoryCache::tokens(int end) const {
  REQUIRE(0 <= end && end <= written(), "only written tokens can be read");
  return std::span(tokens_).first(static_cast<std::size_t>(end));
}

void HistoryCache::add_to(Digest& digest, int length) const { digest.add(tokens(length)); }

}  // namespace draftproof
