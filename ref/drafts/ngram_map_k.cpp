// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_map_k.h"

#include "ref/drafts/drafts.h"
#include "ref/drafts/legacy_ngram_map.h"

namespace draftproof {
namespace {

constexpr DraftOption options[] = {
    {"n", 3, 1, 1024, "tokens that must have occurred before"},
    {"m", 16, 1, 1024, "draft tokens, at most"},
    {"min_hits", 2, 1, 1 << 20, "earlier occurrences, at least"},
    legacy_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  if (!is_legacy(stage)) return need_of_text(NgramMapKDraft::bytes_per_ngram);
  MemoryNeed need = need_of_text(LegacyNgramMapDraft::bytes_per_round);
  need.cache_fixed = LegacyNgramMapDraft::table_bytes;
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint*, const DraftTarget&, const LoadOptions&) {
  const NgramMapKSettings settings = {
      .n = stage.integer("n"), .m = stage.integer("m"), .min_hits = stage.integer("min_hits")};
  if (!is_legacy(stage)) return text_drafter<NgramMapKDraft>(settings);
  return text_drafter<LegacyNgramMapDraft>(
      LegacyNgramMapSettings{.n = settings.n, .m = settings.m, .min_hits = settings.min_hits, .values = false});
}

}  // namespace

const DraftKind ngram_map_k_kind = {.name = "ngram-map-k",
                                    .summary = "what followed the last tokens, if they occurred often before",
                                    .keeps = Keeps::tokens,
                                    .options = options,
                                    .need = memory_need,
                                    .load = load};

}  // namespace draftproof
