// SPDX-License-Identifier: MIT
#include "ref/drafts/medusa.h"

#include <algorithm>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/caches/feature_cache.h"
#include "ref/drafts/decoding_need.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/marginal_tree.h"
#include "ref/drafts/network_draft.h"
#include "ref/drafts/short_context.h"
#include "ref/models/checkpoint_kind.h"

namespace draftproof {

MedusaDraft::MedusaDraft(MedusaHeads& heads, int capacity, int tree, MinProbability min_probability)
    : heads_(heads), capacity_(capacity), tree_(tree), min_probability_(min_probability), cache_(new_cache()) {}

std::unique_ptr<Cache> MedusaDraft::new_cache() const {
  std::vector<std::unique_ptr<LayerCache>> layers;
  layers.push_back(std::make_unique<FeatureCache>(heads_.width(), capacity_));
  return std::make_unique<Cache>(std::move(layers), capacity_, std::max(max_chunk, 1 + draft_max()));
}

void MedusaDraft::forget() {
  cache_.reset();  // first, so that the memory is never there twice
  cache_ = new_cache();
}

void MedusaDraft::observe(std::span<const Token> committed, std::span<const float> features) {
  const int rows = static_cast<int>(committed.size());
  REQUIRE(features.size() == committed.size() * static_cast<std::size_t>(heads_.width()), "one tap per position");
  Transaction transaction = cache_->begin(rows);
  cache_->layer<FeatureCache>(0).write(cache_->length(), features);
  cache_->wrote(rows);
  transaction.commit(rows);
}

void MedusaDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  ProposeJob job{this, anchor, limit, &builder};
  propose_together(heads_, std::span(&job, 1));
  if (job.error) std::rethrow_exception(job.error);
}

void MedusaDraft::propose_together(MedusaHeads& heads, std::span<ProposeJob> jobs) {
  std::vector<MedusaHeads::Text> texts;
  std::vector<ProposeJob*> asked;
  for (ProposeJob& job : jobs) {
    auto& draft = static_cast<MedusaDraft&>(*job.draft);
    REQUIRE(job.limit >= 1 && job.limit <= draft.draft_max(), "a draft is asked for at most draft_max() draft tokens");
    const int length = draft.anchor_ = draft.cache_->length();
    if (length == 0) continue;
    const std::span<const float> feature = draft.cache_->layer<FeatureCache>(0).row(length - 1);
    texts.push_back({feature, std::min(job.limit, heads.count())});
    asked.push_back(&job);
  }
  if (texts.empty()) return;
  heads.compute(texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ProposeJob& job = *asked[i];
    try {
      static_cast<const MedusaDraft&>(*job.draft).add(texts[i], job.limit, *job.builder);
    } catch (...) {
      job.error = std::current_exception();
    }
  }
}

void MedusaDraft::add(const MedusaHeads::Text& text, int limit, ProposalBuilder& builder) const {
  if (!text.error.empty()) throw Error(text.error);
  const std::size_t vocabulary = text.logits.size() / static_cast<std::size_t>(text.heads);
  if (tree_ > 0) {
    add_most_probable_paths(text.logits, static_cast<int>(vocabulary), std::min(limit, tree_), builder);
    return;
  }
  for (int head = 0; head < text.heads; ++head) {
    const std::span<const float> row = text.logits.subspan(static_cast<std::size_t>(head) * vocabulary, vocabulary);
    if (min_probability_.stops_before(row)) return;
    builder.draw(row);
  }
}

std::unique_ptr<Draft> MedusaDrafter::open(int capacity, int) {
  return std::make_unique<MedusaDraft>(*heads_, capacity, tree_, min_probability_);
}

namespace {

bool recognizes(const Json& config) { return checkpoint_kind(config) == medusa_checkpoint; }

constexpr DraftOption options[] = {
    {"tree", 0, 0, 1024, "draft tokens of a tree of the most probable paths; 0: a chain"},
    type_option,
    context_option,
    head_option,
    min_prob_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                       const LoadOptions& load_options) {
  MemoryNeed need = MedusaHeads::need(*files, draft_options(stage, load_options));
  need.end_at(context_of(stage));
  add_reading(describe_medusa(*files).vocabulary, need);
  need.scratch_per_draft_token = 0;  // the target's has it
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                              const LoadOptions& load_options) {
  auto heads = std::make_unique<MedusaHeads>(*files, target.model, draft_options(stage, load_options));
  auto drafter = std::make_unique<MedusaDrafter>(std::move(heads), stage.integer("tree"), min_probability_of(stage));
  return for_texts_of_any_length(std::move(drafter), context_of(stage));
}

}  // namespace

const DraftKind medusa_kind = {.name = "medusa",
                               .summary = "heads that each say one token more from the target's last hidden state",
                               .takes_path = TakesPath::required,
                               .recognizes = recognizes,
                               .keeps = Keeps::cache,
                               .options = options,
                               .need = memory_need,
                               .load = load};

}  // namespace draftproof
