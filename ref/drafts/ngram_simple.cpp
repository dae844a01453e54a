// SPDX-License-Identifier: MIT
// The kind ngram-simple: ngram-map-k with min_hits = 1.
#include "ref/drafts/drafts.h"
#include "ref/drafts/legacy_ngram_simple.h"
#include "ref/drafts/ngram_map_k.h"

namespace draftproof {
namespace {

constexpr DraftOption options[] = {
    {"n", 3, 1, 1024, "tokens that must have occurred before"},
    {"m", 16, 1, 1024, "draft tokens, at most"},
    legacy_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  return need_of_text(is_legacy(stage) ? LegacyDraft::bytes_per_round : NgramMapKDraft::bytes_per_ngram);
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint*, const DraftTarget&, const LoadOptions&) {
  const NgramMapKSettings settings = {.n = stage.integer("n"), .m = stage.integer("m"), .min_hits = 1};
  if (is_legacy(stage)) return text_drafter<LegacyNgramSimpleDraft>(settings);
  return text_drafter<NgramMapKDraft>(settings);
}

}  // namespace

const DraftKind ngram_simple_kind = {.name = "ngram-simple",
                                     .summary = "what followed the last tokens where they occurred before",
                                     .keeps = Keeps::tokens,
                                     .options = options,
                                     .need = memory_need,
                                     .load = load};

}  // namespace draftproof
