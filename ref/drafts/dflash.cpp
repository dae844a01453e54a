// SPDX-License-Identifier: MIT
#include "ref/drafts/dflash.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/drafts/decoding_need.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/marginal_tree.h"
#include "ref/drafts/network_draft.h"
#include "ref/models/checkpoint_kind.h"

namespace draftproof {

DFlashDraft::DFlashDraft(DFlashNetwork& network, int capacity, int tree, MinProbability min_probability)
    : network_(network), capacity_(capacity), tree_(tree), min_probability_(min_probability), context_(new_context()) {}

DFlashNetwork::Block DFlashDraft::block(Token anchor, int limit) const {
  REQUIRE(limit >= 1 && limit <= draft_max(), "a draft is asked for at most draft_max() draft tokens");
  return {context_.get(), anchor, std::min(limit, longest_chain())};
}

void DFlashDraft::add(const DFlashNetwork::Block& block, int limit, ProposalBuilder& builder) {
  anchor_ = block.position;
  if (!block.error.empty()) throw Error(block.error);
  const std::size_t vocabulary = block.logits.size() / static_cast<std::size_t>(block.masks);
  if (tree_ > 0) {
    add_most_probable_paths(block.logits, static_cast<int>(vocabulary), std::min(limit, tree_), builder);
    return;
  }
  const bool selects = network_.config().selector_rank > 0;
  Token previous = block.anchor;
  for (int i = 0; i < block.masks; ++i) {
    const std::span<const float> logits = block.logits.subspan(static_cast<std::size_t>(i) * vocabulary, vocabulary);
    const std::vector<float> scores = selects ? selected(block, i, logits, previous) : std::vector<float>();
    const std::span<const float> row = selects ? scores : logits;
    if (min_probability_.stops_before(row)) return;
    previous = builder.draw(row);
  }
}

/// The row of scores: -infinity but for the candidates.
std::vector<float> DFlashDraft::selected(const DFlashNetwork::Block& block, int mask, std::span<const float> logits,
                                         Token previous) const {
  const std::vector<Token> candidates = most_probable(logits, network_.config().selector_candidates);
  std::vector<float> scores(candidates.size());
  network_.score(block, mask, previous, candidates, scores);
  std::vector<float> row(logits.size(), -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < candidates.size(); ++i) row[static_cast<std::size_t>(candidates[i])] = scores[i];
  return row;
}

std::unique_ptr<Cache> DFlashDraft::new_context() const {
  // A DFlash block may reach past the text's last position. Its rows need room although none of them is kept.
  const int block_size = network_.config().block_size;
  return network_.new_context(capacity_ + block_size, std::max(max_chunk, block_size));
}

int DFlashDraft::passed() const {
  const int length = context_->length();
  int first = length;  // that a layer sees
  for (int i = 0; i < network_.config().transformer.depth(); ++i) {
    first = std::min(first, context_->layer<AttentionCache>(i).first_visible(length));
  }
  return first;
}

void DFlashDraft::forget() {
  context_.reset();  // first, so that the memory is never there twice
  context_ = new_context();
}

void DFlashDraft::observe(std::span<const Token> committed, std::span<const float> features) {
  const DFlashNetwork::ContextRows rows = {context_.get(), features, static_cast<int>(committed.size())};
  network_.append(std::span(&rows, 1));
}

void DFlashDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  DFlashNetwork::Block one = block(anchor, limit);
  network_.compute(std::span(&one, 1));
  add(one, limit, builder);
}

std::unique_ptr<Draft> DFlashDrafter::open(int capacity, int) {
  REQUIRE(capacity <= reach(), "the text fits the network's context");
  return std::make_unique<DFlashDraft>(*network_, capacity, tree_, min_probability_);
}

void DFlashDrafter::propose(std::span<ProposeJob> jobs) {
  std::vector<DFlashNetwork::Block> blocks;
  for (const ProposeJob& job : jobs) {
    blocks.push_back(static_cast<DFlashDraft&>(*job.draft).block(job.anchor, job.limit));
  }
  network_->compute(blocks);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    try {
      static_cast<DFlashDraft&>(*jobs[i].draft).add(blocks[i], jobs[i].limit, *jobs[i].builder);
    } catch (...) {
      jobs[i].error = std::current_exception();
    }
  }
}

void DFlashDrafter::observe(std::span<ObserveJob> jobs) {
  std::vector<DFlashNetwork::ContextRows> rows;
  for (const ObserveJob& job : jobs) {
    rows.push_back(
        {static_cast<DFlashDraft&>(*job.draft).context_.get(), job.features, static_cast<int>(job.committed.size())});
  }
  network_->append(rows);
}

namespace {

bool recognizes(const Json& config) { return checkpoint_kind(config) == dflash_checkpoint; }

constexpr DraftOption options[] = {
    {"tree", 0, 0, 1024, "draft tokens of a tree of the most probable paths; 0: a chain"},
    {"window", 0, 0, 1 << 24, "positions of the text that layers of full attention see; 0: all"},
    type_option,
    kv_option,
    context_option,
    head_option,
    min_prob_option,
};

MemoryNeed memory_need(const DraftStage& stage, const Checkpoint* files, const MemoryNeed&,
                       const LoadOptions& load_options) {
  MemoryNeed need = DFlashNetwork::need(*files, draft_options(stage, load_options), stage.integer("window"));
  const TransformerConfig config = describe_dflash(files->config()).transformer;
  need.end_at(context_of(stage, config.context));
  add_reading(config.vocabulary, need);
  need.scratch_per_draft_token = 0;  // the target's has it
  return need;
}

std::unique_ptr<Drafter> load(const DraftStage& stage, const Checkpoint* files, const DraftTarget& target,
                              const LoadOptions& load_options) {
  auto network = std::make_unique<DFlashNetwork>(*files, target.model, draft_options(stage, load_options),
                                                 stage.integer("window"));
  if (stage.trees() && network->config().selector_rank > 0) {
    throw Error(files->path().string() +
                ": drafts with a candidate selector, in which a token depends on the one "
                "before, and trees of them are not implemented; leave out tree");
  }
  return std::make_unique<DFlashDrafter>(std::move(network), stage.integer("tree"), min_probability_of(stage),
                                         context_of(stage));
}

}  // namespace

const DraftKind dflash_kind = {.name = "dflash",
                               .summary = "block diffusion from the target's features",
                               .takes_path = TakesPath::required,
                               .recognizes = recognizes,
                               .keeps = Keeps::cache,
                               .options = options,
                               .need = memory_need,
                               .load = load};

}  // namespace draftproof
