// SPDX-License-Identifier: MIT
#include "ref/models/checkpoint_kind.h"

#include "ref/models/models.h"

namespace draftproof {

const CheckpointKind target_checkpoint = {
    .name = "target",
    .architectures = nullptr,
    .lender = "those of another layer",
    .recognizes = [](const Json&) { return true; },
    .describe = [](const Json& config) { return architecture_of(config).describe(config); }};

std::span<const CheckpointKind* const> all_checkpoint_kinds() noexcept {
  static constexpr const CheckpointKind* list[] = {
      &dflash_checkpoint, &eagle3_checkpoint, &gemma4_assistant_checkpoint, &medusa_checkpoint, &target_checkpoint,
  };
  return list;
}

const CheckpointKind& checkpoint_kind(const Json& config) {
  for (const CheckpointKind* const kind : all_checkpoint_kinds()) {
    if (kind->recognizes(config)) return *kind;
  }
  return target_checkpoint;
}

}  // namespace draftproof
