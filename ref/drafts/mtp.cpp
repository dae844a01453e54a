// SPDX-License-Identifier: MIT
// The kind mtp: drafts over MTP heads or an assistant.
#include "ref/models/mtp.h"

#include "ref/base/error.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/head_draft.h"
#include "ref/drafts/network_draft.h"
#include "ref/drafts/short_context.h"
#include "ref/models/checkpoint_kind.h"
#include "ref/models/gemma4_assistant.h"

namespace draftproof {
namespace {

constexpr DraftOption options[] = {head_tree_option, type_option, kv_option, context_option, min_prob_option};

bool is_assistant(const Checkpoint& files) { return checkpoint_kind(files.config()) == gemma4_assistant_checkpoint; }

/// A target may have heads.
bool recognizes(const Json& config) {
  const CheckpointKind& kind = checkpoint_kind(config);
  return kind == target_checkpoint || kind == gemma4_assistant_checkpoint;
}

/// Throws Error when an assistant is given a format for keys and values.
void require_own_cache(const DraftStage& stage, const Checkpoint& files) {
  if (!is_assistant(files) || !stage.word("kv")) return;
  throw Error(files.path().string() +
              ": is an assistant, which reads the target's keys and values and has none of its " + "own; leave out kv");
}

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                       const LoadOptions& load_options) {
  const LoadOptions as = own_options(stage, load_options);
  if (is_assistant(*files)) {
    MemoryNeed need = need_of_draft(*files, as);
    need.end_at(context_of(stage, describe_gemma4_assistant(files->config()).context));
    return need;
  }
  const TransformerConfig config = read_mtp_config(*files).transformer;
  MemoryNeed need = MtpHead::need(*files, as);
  need.end_at(context_of(stage, config.context));
  need.scratch_per_draft_token = 0;  // the target's has it
  if (stage.trees()) need += need_of_tree(config, as.kv);
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                              const LoadOptions& load_options) {
  require_own_cache(stage, *files);
  const LoadOptions as = own_options(stage, load_options);
  std::unique_ptr<Head> head;
  if (is_assistant(*files)) head = std::make_unique<Gemma4Assistant>(*files, target.model, as);
  else head = std::make_unique<MtpHead>(*files, target.model, as);
  auto drafter = std::make_unique<HeadDrafter>(std::move(head), stage.integer("tree"), min_probability_of(stage));
  return for_texts_of_any_length(std::move(drafter), context_of(stage));
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
