// SPDX-License-Identifier: MIT
// The kind eagle3: drafts over an EAGLE-3 head.
#include "ref/models/eagle3.h"

#include "ref/drafts/drafts.h"
#include "ref/drafts/head_draft.h"
#include "ref/drafts/network_draft.h"
#include "ref/drafts/short_context.h"
#include "ref/models/checkpoint_kind.h"

namespace draftproof {
namespace {

bool recognizes(const Json& config) { return checkpoint_kind(config) == eagle3_checkpoint; }

constexpr DraftOption options[] = {head_tree_option, type_option, kv_option,
                                   context_option,   head_option, min_prob_option};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                       const LoadOptions& load_options) {
  const LoadOptions as = draft_options(stage, load_options);
  const TransformerConfig config = describe_eagle3(files->config()).transformer;
  MemoryNeed need = need_of_draft(*files, as);
  need.end_at(context_of(stage, config.context));
  if (stage.trees()) need += need_of_tree(config, as.kv);
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                              const LoadOptions& load_options) {
  auto head = std::make_unique<Eagle3Head>(*files, target.model, draft_options(stage, load_options));
  auto drafter = std::make_unique<HeadDrafter>(std::move(head), stage.integer("tree"), min_probability_of(stage));
  return for_texts_of_any_length(std::move(drafter), context_of(stage));
}

}  // namespace

const DraftKind eagle3_kind = {.name = "eagle3",
                               .summary = "a layer that continues from the target's features",
                               .takes_path = TakesPath::required,
                               .recognizes = recognizes,
                               .keeps = Keeps::cache,
                               .options = options,
                               .need = memory_need,
                               .load = load};

}  // namespace draftproof
