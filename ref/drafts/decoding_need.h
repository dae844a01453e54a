// SPDX-License-Identifier: MIT
// The memory of a model together with that of what reads its rows: the sampler, and distributions of draft tokens.
#pragma once

#include "ref/models/memory.h"

namespace draftproof {

MemoryNeed decoding_need(const Checkpoint& files, const LoadOptions& load_options);

/// Adds to the need of a model what reads its rows.
void add_reading(int vocabulary, MemoryNeed& need);

}  // namespace draftproof
