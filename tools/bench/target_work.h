// SPDX-License-Identifier: MIT
// What a pass of a target over one row has to do at least: read its weights, and multiply with each. Keys and values,
// and everything that is no matrix, are left out.
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

TargetWork target_work(const std::string& target, const LoadOptions& load_options);

}  // namespace draftproof
