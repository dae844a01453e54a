// SPDX-License-Identifier: MIT
#include "ref/drafts/self_draft.h"

#include "kernels/kernels.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/drafts/continuation.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/network_draft.h"
#include "ref/models/models.h"
#include "ref/ranks/led_model.h"

namespace draftproof {

void SelfDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  ProposeJob job{this, anchor, limit, &builder};
  SelfDrafter::propose_together(model_, outputs_, std::span(&job, 1));
  if (job.error) std::rethrow_exception(job.error);
}

std::unique_ptr<Draft> SelfDrafter::open(int capacity, int draft_max) {
  return std::make_unique<SelfDraft>(*model_, draft_tokens_per_round(draft_max, capacity), min_probability_);
}

void SelfDrafter::propose_together(Model& model, Outputs& outputs, std::span<ProposeJob> jobs) {
  std::vector<Continuation> texts;
  for (ProposeJob& job : jobs) {
    auto& draft = static_cast<SelfDraft&>(*job.draft);
    REQUIRE(job.limit >= 1 && job.limit <= draft.draft_max_, "a draft is asked for at most draft_max() draft tokens");
    REQUIRE(draft.target_ != nullptr, "the draft has got the target's cache");
    draft.anchor_ = draft.target_->length();
    texts.push_back({job, *draft.target_, draft.target_->begin(job.limit), {job.anchor}});
  }
  continue_texts(model, texts, outputs, [&](std::size_t i, std::span<const float> logits) -> std::optional<Token> {
    const auto& draft = static_cast<const SelfDraft&>(*jobs[i].draft);
    if (draft.min_probability_.stops_before(logits)) return std::nullopt;
    return jobs[i].builder->draw(logits);
  });
}

namespace {

constexpr DraftOption options[] = {
    {"layers", 0, 0, 1024, "the first so many layers of the target; 0: all"},
    word_option("type", weight_words, "what the target's weights become; q4"),
    head_option,
    min_prob_option,
};

/// The options of the target's weights as its draft.
LoadOptions self_options(const DraftStage& stage, const LoadOptions& load_options) {
  LoadOptions as = of_type(stage.word("type").value_or("q4"), load_options);
  as.layers = stage.integer("layers");
  as.head_tokens = stage.integer("head");
  return as;
}

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                       const LoadOptions& load_options) {
  MemoryNeed need = need_of_draft(*files, self_options(stage, load_options));
  need.cache_fixed = 0;  // it uses the target's
  need.cache_per_position = 0;
  return need;
}

/// Throws Error when the draft would be as slow as the target. Decides by the formats of the weights, and so for a
/// kernel table that keeps all weights as floats as for the others.
void require_smaller(const Checkpoint& files, const LoadOptions& target, const LoadOptions& draft) {
  const Kernels& scalar = *find_kernels("scalar");
  const auto bytes = [&](const LoadOptions& options) {
    std::uint64_t sum = 0;
    for (const auto& [format, size] : model_need(files, with_kernels(scalar, options)).weights) sum += size;
    return sum;
  };
  if (bytes(draft) < bytes(target)) return;
  throw Error(files.path().string() +
              ": as its own draft it would be as slow, with as many bytes of weights; use a smaller type, "
              "self?layers=N, or another draft");
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint* files, const DraftTarget&,
                              const LoadOptions& load_options) {
  const LoadOptions as = self_options(stage, load_options);
  require_smaller(*files, load_options, as);
  return std::make_unique<SelfDrafter>(load_led_model(*files, as), min_probability_of(stage));
}

}  // namespace

const DraftKind self_kind = {.name = "self",
                             .summary = "the target itself, its weights in 4 bits, over its own cache",
                             .keeps = Keeps::nothing,
                             .over_ranks = true,
                             .options = options,
                             .need = memory_need,
                             .load = load};

}  // namespace draftproof
