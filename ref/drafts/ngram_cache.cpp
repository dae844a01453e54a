// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_cache.h"

#include "ref/drafts/drafts.h"
#include "ref/drafts/legacy_ngram_cache.h"
#include "ref/drafts/lookup_file.h"

namespace draftproof {
namespace {

/// What a token needs to be drafted, by the length of the n-gram: of all counts after it, and as a percentage of them.
struct Threshold {
  int total;
  int percent;
};
constexpr Threshold thresholds[] = {{}, {2, 66}, {2, 50}, {1, 50}, {1, 50}};

}  // namespace

std::optional<Token> sure_continuation(const NgramCounts::Continuations& known, int n) {
  const auto [total, percent] = thresholds[n];
  if (known.total < total || 100 * std::int64_t{known.best_count} < percent * known.total) return {};
  return known.best;
}

std::uint64_t lookup_weight(const NgramCounts* lookup, std::span<const Token> text, Token token) {
  if (lookup == nullptr || text.size() < lookup_n) return 1;
  const int count = lookup->count(Ngram(text.last(lookup_n)), token);
  return count == 0 ? 1 : 100 * static_cast<std::uint64_t>(count);
}

std::uint64_t NgramCacheDraft::weight(const Ngram& ngram, Token token) const {
  return lookup_weight(lookup_.get(), std::span(ngram.places()).first(static_cast<std::size_t>(ngram.n())), token);
}

void NgramCacheDraft::learn(std::span<const Token> text, std::size_t learned) {
  counts_.make_room(Ngram::n_max);
  for (int n = 1; n <= Ngram::n_max && static_cast<std::size_t>(n) <= learned; ++n) {
    const Ngram ngram(text, learned, n);
    counts_.add(ngram, text[learned], 1, [&](Token token) { return weight(ngram, token); });
  }
}

/// What followed the n-gram in the text, of which the anchor is not counted yet.
NgramCounts::Continuations NgramCacheDraft::continuations(std::span<const Token> text, const Ngram& ngram) const {
  const NgramCounts::Continuations* const found = counts_.find(ngram);
  NgramCounts::Continuations known = found != nullptr ? *found : NgramCounts::Continuations{.key = ngram};
  const int n = ngram.n();
  if (static_cast<std::size_t>(n) >= text.size() || Ngram(text, text.size() - 1, n) != ngram) return known;
  const Token anchor = text.back();
  const int count = counts_.count(ngram, anchor) + 1;
  ++known.total;
  if (NgramCounts::better(anchor, count, weight(ngram, anchor), known.best, known.best_count,
                          weight(ngram, known.best))) {
    known.best = anchor;
    known.best_count = count;
  }
  return known;
}

std::optional<Token> NgramCacheDraft::next(std::span<const Token> text) const {
  for (int n = Ngram::n_max; n >= 1; --n) {
    if (window_.size() < static_cast<std::size_t>(n)) continue;
    if (const auto token = sure_continuation(continuations(text, Ngram(window_, window_.size(), n)), n)) return token;
  }
  if (!lookup_ || window_.size() < lookup_n) return {};
  const NgramCounts::Continuations* const known = lookup_->find(Ngram(window_, window_.size(), lookup_n));
  return known != nullptr ? sure_continuation(*known, lookup_n) : std::nullopt;
}

void NgramCacheDraft::continue_text(std::span<const Token> text, int limit, std::vector<Token>& draft_tokens) {
  const auto last = text.last(std::min<std::size_t>(Ngram::n_max, text.size()));
  window_.assign(last.begin(), last.end());
  while (std::ssize(draft_tokens) < limit) {
    const auto token = next(text);
    if (!token) return;
    draft_tokens.push_back(*token);
    window_.push_back(*token);
  }
}

void NgramCacheDraft::clear() {
  counts_ = {};
  window_ = {};
}

namespace {

constexpr DraftOption options[] = {
    {"m", 8, 1, 1024, "draft tokens, at most"},
    legacy_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  constexpr int legacy_bytes = LegacyNgramCacheDraft::bytes_per_token + LegacyDraft::bytes_per_round;
  MemoryNeed need = need_of_text(is_legacy(stage) ? legacy_bytes : NgramCacheDraft::bytes_per_token);
  if (!stage.path.empty()) need.weights["lookup file"] = memory_of_lookup_file(stage.path);
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint*, const DraftTarget& target,
                              const LoadOptions&) {
  NgramCacheSettings settings = {.m = stage.integer("m")};
  if (!stage.path.empty()) {
    settings.lookup = std::make_shared<NgramCounts>(read_lookup_file(stage.path, target.model.vocabulary()));
  }
  if (is_legacy(stage)) return text_drafter<LegacyNgramCacheDraft>(settings);
  return text_drafter<NgramCacheDraft>(settings);
}

}  // namespace

const DraftKind ngram_cache_kind = {.name = "ngram-cache",
                                    .summary = "what followed the last tokens often enough, weighed by a lookup file",
                                    .takes_path = TakesPath::optional,
                                    .keeps = Keeps::tokens,
                                    .options = options,
                                    .need = memory_need,
                                    .load = load};

}  // namespace draftproof
