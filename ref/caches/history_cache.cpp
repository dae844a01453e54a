// SPDX-License-Identifier: MIT
#include "ref/caches/history_cache.h"

#include <algorithm>
#include <cstring>

#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr const char* layout = "history";

/// Returns the token at this byte of the snapshot.
Token token_at(const LayerSnapshot& snapshot, std::size_t at) {
  Token token = 0;
  std::memcpy(&token, snapshot.data.data() + at, sizeof token);
  return token;
}

}  // namespace

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

LayerSnapshotPtr HistoryCache::snapshot(int from) const {
  const int to = settled();
  if (to <= from || to == 0) return nullptr;
  const int first = std::max(0, from);
  const auto rows = std::as_bytes(tokens(to).subspan(static_cast<std::size_t>(first)));
  return std::make_shared<LayerSnapshot>(
      LayerSnapshot{.layout = layout, .from = first, .to = to, .data = {rows.begin(), rows.end()}});
}

bool HistoryCache::fits(const LayerSnapshot& snapshot) const {
  if (snapshot.layout != layout || snapshot.form != LayerSnapshot::Form::rows || snapshot.shortest != 0) return false;
  if (snapshot.from < 0 || snapshot.from >= snapshot.to) return false;
  if (snapshot.data.size() != sizeof(Token) * static_cast<unsigned>(snapshot.to - snapshot.from)) return false;
  for (std::size_t at = 0; at < snapshot.data.size(); at += sizeof(Token)) {
    if (token_at(snapshot, at) < 0) return false;
  }
  return true;
}

void HistoryCache::load(const LayerSnapshot& snapshot, int length) {
  tokens_.resize(static_cast<std::size_t>(std::min(length, snapshot.from)));
  for (int position = snapshot.from; position < length; ++position) {
    tokens_.push_back(token_at(snapshot, sizeof(Token) * static_cast<unsigned>(position - snapshot.from)));
  }
}

void HistoryCache::on_discard(int from, int count) {
  tokens_.resize(static_cast<std::size_t>(settled()));
  tokens_.erase(tokens_.begin() + from, tokens_.begin() + from + count);
}

void HistoryCache::add_to(Digest& digest, int length) const { digest.add(tokens(length)); }

}  // namespace draftproof
