// SPDX-License-Identifier: MIT
// A model over several ranks (kernels/ranks.h). Rank 0 runs the program: it reads requests, drafts, samples and writes.
// The others follow: they load their parts of the same model, and do with them what rank 0 says, which tells them every
// operation on the model and its caches. So nothing that only rank 0 knows, as clocks and requests, can part them.
#pragma once

#include <memory>

#include "ref/formats/checkpoint.h"
#include "ref/models/model.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// Loads a model; over options.ranks, whose rank 0 this is, where there are any. Throws Error, also when another rank
/// could not load its part.
std::unique_ptr<Model> load_led_model(const Checkpoint& files, const LoadOptions& options);

/// What the other ranks run, until rank 0 dismisses them.
void follow(Ranks& ranks);
/// Of rank 0, when all of its models are gone.
void dismiss(Ranks& ranks);

}  // namespace draftproof
