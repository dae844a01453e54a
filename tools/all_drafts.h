// SPDX-License-Identifier: MIT
// What `--draft all` stands for.
#pragma once

#include <string>
#include <vector>

#include "ref/models/weight_loader.h"

namespace draftproof {

/// Returns every draft that serves this target: of the kinds that need no file, and of the checkpoints that lie beside
/// the target, of each kind but dflash and eagle3 the first one, a model translated if none beside it has its
/// vocabulary; then chains of them, three where one keeps a cache of the text. Of the controls only tree-test: the
/// others are always wrong or always right. Loads them one after the other.
std::vector<std::string> all_drafts(const std::string& target, const LoadOptions& load_options);

}  // namespace draftproof
