// SPDX-License-Identifier: MIT
// The kind mtp: drafts over MTP heads or an assistant.
#include "ref/models/mtp.h"

#include "ref/drafts/drafts.h"
#include "ref/drafts/head_draft.h"
#include "ref/drafts/network_draft.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/gemma4_assistant.h"

namespace draftproof {
namespace {

constexpr DraftOption options[] = {head_tree_option, q4_option_of_a_model, min_prob_option};

bool is_assistant(const Checkpoint& files) { return checkpoint_kind(files.config()) == gemma4_assistant_checkpoint; }

/// A target may have heads.
bool recognizes(const Json& config) {
  const CheckpointKind& kind = checkpoint_kind(config);
  return kind == target_checkpoint || kind == gemma4_assistant_checkpoint;
}

/// Of heads that borrow the target's tables.
LoadOptions head_options(const DraftStage& stage, const LoadOptions& load_options) {
  return stage.integer("q4") == 1 ? in_four_bits(load_options) : load_options;
}

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                       const LoadOptions& load_options) {
  const LoadOptions as = head_options(stage, load_options);
  if (is_assistant(*files)) {
    MemoryNeed need = need_of_draft(*files, as);
    need.end_at(describe_gemma4_assistant(files->config()).context);
    return need;
  }
  const TransformerConfig config = read_mtp_config(*files).transformer;
  MemoryNeed need = MtpHead::need(*files, as);
  need.end_at(config.context);
  need.scratch_per_draft_token = 0;  // the target's has it
  if (stage.trees()) need += need_of_tree(config, as.kv);
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                              const LoadOptions& load_options) {
  const LoadOptions as = head_options(stage, load_options);
  std::unique_ptr<Head> head;
  if (is_assistant(*files)) head = std::make_unique<Gemma4Assistant>(*files, target.model, as);
  else head = std::make_unique<MtpHead>(*files, target.model, as);
  return std::make_unique<HeadDrafter>(std::move(head), stage.integer("tree"), min_probability_of(stage));
}

}  // namespace

const DraftKind mtp_kind = {
    .name = "mtp",
    .summary = "the MTP (NextN) heads in the target's checkpoint or in another, or an assistant",
    .takes_path = TakesPath::optional_checkpoint,
    .recognizes = recognizes,
    .keeps = Keeps::cache,
    .options = options,
    .need = memory_need,
    .load = load};

}  // namespace draftproof
