// SPDX-License-Identifier: MIT
// What a checkpoint is, by its config: a target, or a draft that reads the features of one. A new kind is a declaration
// here and a row in checkpoint_kind.cpp; the file of its network defines it.
#pragma once

#include <span>

#include "ref/formats/json.h"
#include "ref/models/transformer_config.h"

namespace draftproof {

struct CheckpointKind {
  const char* name;           // as `inspect` says it
  const char* architectures;  // of a draft: those that configs name
  const char* lender;         // whose keys and values layers without a cache read
  bool (*recognizes)(const Json& config);
  /// Reads what does not depend on the target. The vocabulary of a draft that leaves it to its target is 1.
  TransformerConfig (*describe)(const Json& config);

  /// A kind is one object.
  bool operator==(const CheckpointKind& other) const noexcept { return this == &other; }
};

extern const CheckpointKind dflash_checkpoint;
extern const CheckpointKind eagle3_checkpoint;
extern const CheckpointKind gemma4_assistant_checkpoint;
extern const CheckpointKind medusa_checkpoint;
extern const CheckpointKind target_checkpoint;  // all others: models of any size, and MTP heads of one

/// Returns the kinds above, in that order.
std::span<const CheckpointKind* const> all_checkpoint_kinds() noexcept;

/// Returns the kind of a checkpoint with this config.
const CheckpointKind& checkpoint_kind(const Json& config);

}  // namespace draftproof
