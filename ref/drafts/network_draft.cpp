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

int context_of(const DraftStage& stage, int made_for) {
  const int asked = stage.integer("context");
  return asked > 0 ? std::min(asked, made_for) : made_for;
}

LoadOptions of_type(const std::string& type, LoadOptions options) {
  options.quantize = quantization_by_name(type);
  options.requantize = true;
  return options;
}

LoadOptions own_options(const DraftStage& stage, const LoadOptions& load_options) {
  const std::optional<std::string> type = stage.word("type");
  LoadOptions options = type ? of_type(*type, load_options) : load_options;
  if (stage.takes("kv")) options.kv = kv_format_by_name(stage.word("kv").value_or(traits(load_options.kv).name));
  return options;
}

LoadOptions draft_options(const DraftStage& stage, const LoadOptions& load_options) {
  LoadOptions options = own_options(stage, load_options);
  options.small_tables = stage.word("type") == "q4";
  options.head_tokens = stage.integer("head");
  return options;
}

MemoryNeed need_of_draft(const Checkpoint& files, const LoadOptions& load_options) {
  MemoryNeed need = decoding_need(files, load_options);
  need.scratch_per_draft_token = 0;  // the target's has it
  return need;
}

}  // namespace draftproof
