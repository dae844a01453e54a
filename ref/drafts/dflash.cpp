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
#include "ref/drafts/short_context.h"
#include "ref/models/checkpoint_kind.h"

namespace draftproof {

DFlashDraft::DFlashDraft(DFlashNetwork& network, int capacity, const DFlashShape& shape)
    : network_(network), capacity_(capacity), shape_(shape), context_(new_context()) {}

void DFlashDraft::add_tree(const DFlashNetwork::Block& block, int limit, ProposalBuilder& builder) const {
  const std::size_t vocabulary = block.logits.size() / static_cast<std::size_t>(block.drafts);
  add_most_probable_paths(block.logits, static_cast<int>(vocabulary), std::min(limit, shape_.tree), builder);
}

/// Draws a draft token. Returns false where the chain ends before it.
bool DFlashDraft::draw(const DFlashNetwork::Step& step, ProposalBuilder& builder) const {
  if (step.confidence < shape_.min_confidence) return false;
  const bool selects = network_.config().selector_rank > 0;
  const std::vector<float> scores = selects ? selected(step) : std::vector<float>();
  const std::span<const float> row = selects ? scores : step.logits;
  if (shape_.min_probability.stops_before(row)) return false;
  builder.draw(row);
  return true;
}

/// The row of scores: -infinity but for the candidates.
std::vector<float> DFlashDraft::selected(const DFlashNetwork::Step& step) const {
  const std::vector<Token> candidates = most_probable(step.logits, network_.config().selector_candidates);
  std::vector<float> scores(candidates.size());
  network_.score(*step.block, step.draft, step.previous, candidates, scores);
  std::vector<float> row(step.logits.size(), -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < candidates.size(); ++i) row[static_cast<std::size_t>(candidates[i])] = scores[i];
  return row;
}

void DFlashDraft::propose_together(DFlashNetwork& network, std::span<ProposeJob> jobs) {
  std::vector<DFlashNetwork::Block> blocks;
  for (const ProposeJob& job : jobs) {
    const auto& draft = static_cast<DFlashDraft&>(*job.draft);
    REQUIRE(job.limit >= 1 && job.limit <= draft.draft_max(), "a draft is asked for at most draft_max() draft tokens");
    blocks.push_back({draft.context_.get(), job.anchor, std::min(job.limit, network.config().longest_chain())});
  }
  network.compute(blocks);
  std::vector<ProposeJob*> chains;  // that go on, and their next draft tokens
  std::vector<DFlashNetwork::Step> steps;
  const auto goes_on = [](ProposeJob& job, const auto& add) {
    try {
      return add(static_cast<DFlashDraft&>(*job.draft));
    } catch (...) {
      job.error = std::current_exception();
      return false;
    }
  };
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const bool chain = goes_on(jobs[i], [&](DFlashDraft& draft) {
      draft.anchor_ = blocks[i].position;
      if (!blocks[i].error.empty()) throw Error(blocks[i].error);
      if (draft.shape_.tree > 0) draft.add_tree(blocks[i], jobs[i].limit, *jobs[i].builder);
      return draft.shape_.tree == 0;
    });
    if (!chain) continue;
    chains.push_back(&jobs[i]);
    steps.push_back({.block = &blocks[i], .draft = 0, .previous = jobs[i].anchor});
  }
  while (!chains.empty()) {
    network.step(steps);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < chains.size(); ++i) {
      ProposalBuilder& builder = *chains[i]->builder;
      const DFlashNetwork::Step step = steps[i];
      if (!goes_on(*chains[i], [&](DFlashDraft& draft) { return draft.draw(step, builder); })) continue;
      if (step.draft + 1 == step.block->drafts) continue;
      chains[kept] = chains[i];
      steps[kept++] = {.block = step.block, .draft = step.draft + 1, .previous = builder.branch().back()};
    }
    chains.resize(kept);
    steps.resize(kept);
  }
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
  ProposeJob job = {.draft = this, .anchor = anchor, .limit = limit, .builder = &builder};
  propose_together(network_, std::span(&job, 1));
  if (job.error) std::rethrow_exception(job.error);
}

std::unique_ptr<Draft> DFlashDrafter::open(int capacity, int) {
  REQUIRE(capacity <= reach(), "the text fits the network's context");
  return std::make_unique<DFlashDraft>(*network_, capacity, shape_);
}

void DFlashDrafter::propose(std::span<ProposeJob> jobs) { DFlashDraft::propose_together(*network_, jobs); }

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
    {"min_confidence", 0, 0, 1, "stops where the confidence head of DSpark says less; 0: nowhere", false},
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
  const DFlashShape shape = {stage.integer("tree"), min_probability_of(stage), stage.option("min_confidence")};
  const std::string place = files->path().string();
  if (shape.tree > 0 && (network->config().selector_rank > 0 || network->config().markov_rank > 0)) {
    throw Error(place +
                ": drafts with a candidate selector or a Markov head, in which a token depends on the one "
                "before, and trees of them are not implemented; leave out tree");
  }
  if (shape.min_confidence > 0 && shape.tree > 0) throw Error(place + ": min_confidence ends chains; leave out tree");
  if (shape.min_confidence > 0 && !network->confident()) {
    throw Error(place + ": has no confidence head, which min_confidence needs; min_prob ends chains without one");
  }
  return for_texts_of_any_length(std::make_unique<DFlashDrafter>(std::move(network), shape), context_of(stage));
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
