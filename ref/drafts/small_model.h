// SPDX-License-Identifier: MIT
// Models as drafts that have the target's vocabulary.
#pragma once

#include <memory>

#include "ref/drafts/draft_kind.h"

namespace draftproof {

/// Loads a model whose rows are as long as the target's (fitted_model.h). Throws Error when its vocabulary is not the
/// target's. Where one of them has no tokenizer to compare, they need as many tokens.
std::unique_ptr<Model> load_small_model(const Checkpoint& files, const DraftTarget& target, const LoadOptions& options);

}  // namespace draftproof
