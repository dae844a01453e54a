// SPDX-License-Identifier: MIT
// The least work of a pass of a target over one row: reading its weights, and one multiplication with each. The KV
// cache and everything that is not a matrix are left out. Of experts those count that one row chooses: several rows
// choose more, at least as many.
#pragma once

#include <string>

#include "ref/models/weight_loader.h"
#include "tools/bench/interleaved_timer.h"

namespace draftproof {

struct TargetWork {
  Work layers;
  Work head;

  Work pass(int rows, bool with_head = true) const;
};

TargetWork target_work(const Checkpoint& weights, const LoadOptions& load_options);

}  // namespace draftproof
