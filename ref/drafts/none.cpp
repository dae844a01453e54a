// SPDX-License-Identifier: MIT
#include "ref/drafts/none.h"

#include "ref/drafts/drafts.h"

namespace draftproof {
namespace {

class NoDrafter final : public Drafter {
 public:
  std::unique_ptr<Draft> open(int, int) override { return std::make_unique<NoDraft>(); }
};

MemoryNeed memory_need(const DraftStage&, const Checkpoint*, const MemoryNeed&, const LoadOptions&) { return {}; }

std::unique_ptr<Drafter> load(const DraftStage&, const Checkpoint*, const DraftTarget&, const LoadOptions&) {
  return std::make_unique<NoDrafter>();
}

}  // namespace

const DraftKind none_kind = {
    .name = "none", .summary = "no draft: plain decoding", .keeps = Keeps::nothing, .need = memory_need, .load = load};

}  // namespace draftproof
