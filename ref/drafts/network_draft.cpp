// SPDX-License-Identifier: MIT
#include "ref/drafts/network_draft.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/drafts/decoding_need.h"

namespace draftproof {
namespace {

constexpr int default_draft_tokens = 5;  // where each costs one pass of the draft

}  // namespace

int draft_tokens_per_round(int asked, int capacity) {
  return std::min(asked > 0 ? asked : default_draft_tokens, capacity);
}

MinProbability min_probability_of(const DraftStage& stage) {
  const MinProbability min(stage.option("min_prob"));
  if (min && stage.trees()) {
    throw Error("draft '" + stage.name_with(stage.path) +
                "': min_prob ends chains; leave it out for a tree, which has "
                "the most probable tokens only");
  }
  return min;
}

LoadOptions in_four_bits(LoadOptions options) {
  options.quantize = Quantization::q4;
  options.requantize = true;
  return options;
}

LoadOptions draft_options(const DraftStage& stage, const LoadOptions& load_options) {
  const bool q4 = stage.integer("q4") == 1;
  LoadOptions options = q4 ? in_four_bits(load_options) : load_options;
  options.small_tables = q4;
  options.head_tokens = stage.integer("head");
  return options;
}

MemoryNeed need_of_draft(const Checkpoint& files, const LoadOptions& load_options) {
  MemoryNeed need = decoding_need(files, load_options);
  need.scratch_per_draft_token = 0;  // the target's has it
  return need;
}

}  // namespace draftproof
