// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_map_k4v.h"

#include "ref/drafts/drafts.h"
#include "ref/drafts/legacy_ngram_map.h"

namespace draftproof {
namespace {

constexpr DraftOption options[] = {
    {"n", 3, 1, 1024, "tokens that must have occurred before"},
    {"m", 8, 1, 1024, "tokens of a continuation"},  // few: longer ones are seldom the same twice
    {"min_hits", 1, 1, 1 << 20, "earlier occurrences, at least"},
    legacy_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  if (!is_legacy(stage)) return need_of_text(NgramMapK4vDraft::bytes_per_ngram);
  MemoryNeed need = need_of_text(LegacyNgramMapDraft::bytes_per_round);
  need.cache_fixed = LegacyNgramMapDraft::table_bytes;
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint*, const DraftTarget&, const LoadOptions&) {
  const NgramMapK4vSettings settings = {
      .n = stage.integer("n"), .m = stage.integer("m"), .min_hits = stage.integer("min_hits")};
  if (!is_legacy(stage)) return text_drafter<NgramMapK4vDraft>(settings);
  return text_drafter<LegacyNgramMapDraft>(
      LegacyNgramMapSettings{.n = settings.n, .m = settings.m, .min_hits = settings.min_hits, .values = true});
}

}  // namespace

const DraftKind ngram_map_k4v_kind = {.name = "ngram-map-k4v",
                                      .summary = "what followed the last tokens most often, if it outweighs the rest",
                                      .keeps = Keeps::tokens,
                                      .options = options,
                                      .need = memory_need,
                                      .load = load};

}  // namespace draftproof
