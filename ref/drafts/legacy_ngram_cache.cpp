// SPDX-License-Identifier: MIT
#include "ref/drafts/legacy_ngram_cache.h"

namespace draftproof {

void LegacyNgramCacheDraft::reset() {
  counts_ = {};
  counted_ = 0;
}

std::optional<Token> LegacyNgramCacheDraft::next(std::span<const Token> x) const {
  for (int n = Ngram::n_max; n >= 1; --n) {
    const auto found = counts_.find(Ngram(x, x.size(), n));
    if (found == counts_.end()) continue;
    NgramCounts::Continuations known = {.key = found->first};
    const auto weight = [&](Token token) { return lookup_weight(settings_.lookup.get(), x, token); };
    for (const auto& [token, count] : found->second) {
      known.total += count;
      if (!NgramCounts::better(token, count, weight(token), known.best, known.best_count, weight(known.best))) continue;
      known.best = token;
      known.best_count = count;
    }
    if (const auto token = sure_continuation(known, n)) return token;
  }
  if (!settings_.lookup) return {};
  const NgramCounts::Continuations* const known = settings_.lookup->find(Ngram(x.last(lookup_n)));
  return known != nullptr ? sure_continuation(*known, lookup_n) : std::nullopt;
}

std::vector<Token> LegacyNgramCacheDraft::draft(std::span<const Token> text) {
  const auto fresh = text.subspan(counted_);
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    for (int n = 1; n <= Ngram::n_max && static_cast<std::size_t>(n) <= i; ++n) ++counts_[Ngram(fresh, i, n)][fresh[i]];
  }
  counted_ = text.size();
  if (text.size() < Ngram::n_max) return {};
  std::vector<Token> x(text.end() - Ngram::n_max, text.end());
  while (std::ssize(x) < Ngram::n_max + settings_.m) {
    const auto token = next(x);
    if (!token) break;
    x.push_back(*token);
  }
  return {x.begin() + Ngram::n_max, x.end()};
}

}  // namespace draftproof
