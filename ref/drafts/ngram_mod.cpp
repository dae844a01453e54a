// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_mod.h"

#include "ref/drafts/drafts.h"
#include "ref/drafts/legacy_ngram_mod.h"

namespace draftproof {
namespace {

constexpr DraftOption options[] = {
    {"n", 4, 1, 1024, "tokens that are hashed"},
    {"m", 16, 1, 1024, "draft tokens, at most"},
    {"bits", 18, 1, 28, "the table has 2^bits slots of 4 bytes"},
    legacy_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint*, const MemoryNeed&, const LoadOptions&) {
  MemoryNeed need = need_of_text(is_legacy(stage) ? LegacyDraft::bytes_per_round : 0);
  need.cache_fixed = sizeof(Token) << stage.integer("bits");
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint*, const DraftTarget&, const LoadOptions&) {
  const NgramModSettings settings = {.n = stage.integer("n"), .m = stage.integer("m"), .bits = stage.integer("bits")};
  if (is_legacy(stage)) return text_drafter<LegacyNgramModDraft>(settings);
  return text_drafter<NgramModDraft>(settings);
}

}  // namespace

const DraftKind ngram_mod_kind = {.name = "ngram-mod",
                                  .summary = "what followed the hash of the last tokens, in a table of constant size",
                                  .keeps = Keeps::tokens,
                                  .options = options,
                                  .need = memory_need,
                                  .load = load};

}  // namespace draftproof
