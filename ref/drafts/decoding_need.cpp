// SPDX-License-Identifier: MIT
#include "ref/drafts/decoding_need.h"

#include "ref/acceptance/sampler.h"
#include "ref/models/model.h"
#include "ref/models/models.h"

namespace draftproof {

void add_reading(int vocabulary, MemoryNeed& need) {
  need.scratch += Sampler::bytes(vocabulary);
  // Of a draft token: the draft's row of logits, and the distribution it was drawn from.
  need.scratch_per_draft_token += Outputs::bytes_per_row(vocabulary) + Distribution::bytes_for(vocabulary);
}

MemoryNeed decoding_need(const Checkpoint& files, const LoadOptions& load_options) {
  MemoryNeed need = model_need(files, load_options);
  add_reading(describe(files.config()).vocabulary, need);
  return need;
}

}  // namespace draftproof
