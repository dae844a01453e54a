// SPDX-License-Identifier: MIT
#include "ref/drafts/head_draft.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ref/acceptance/sampler.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/drafts/draft_tree.h"
#include "ref/drafts/marginal_tree.h"
#include "ref/drafts/network_draft.h"

namespace draftproof {
namespace {

void append(std::vector<float>& to, std::span<const float> more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

HeadDraft::HeadDraft(Head& head, int capacity, int draft_max, Shape shape, MinProbability min_probability)
    : head_(head),
      capacity_(capacity),
      draft_max_(draft_max),
      longest_path_(head.mask() != nullptr ? draft_tokens_per_round(head.mask()->draft_tokens, capacity) : draft_max),
      shape_(shape),
      min_probability_(min_probability),
      cache_(new_cache()) {}

std::unique_ptr<Cache> HeadDraft::new_cache() {
  const int pending = std::max(max_chunk, draft_max_ + 1);
  std::vector<std::unique_ptr<LayerCache>> layers = head_.new_layers(capacity_, pending);
  feature_layer_ = static_cast<int>(layers.size());
  layers.push_back(std::make_unique<FeatureCache>(head_.width(), capacity_));
  return std::make_unique<Cache>(std::move(layers), capacity_, pending);
}

void HeadDraft::forget() {
  cache_.reset();  // first, so that the memory is never there twice
  cache_ = new_cache();
}

void HeadDraft::append_last_feature(std::vector<float>& to) const {
  const int length = cache_->length();
  if (length > 0) append(to, features().row(length - 1));
  else to.resize(to.size() + static_cast<std::size_t>(head_.width()));
}

void HeadDraft::observe(std::span<const Token> committed, std::span<const float> features) {
  ObserveJob job{this, committed, features};
  observe_together(head_, std::span(&job, 1));
}

void HeadDraft::propose(Token anchor, int limit, ProposalBuilder& builder) {
  ProposeJob job{this, anchor, limit, &builder};
  propose_together(head_, shape_, std::span(&job, 1));
  if (job.error) std::rethrow_exception(job.error);
}

void HeadDraft::observe_together(Head& head, std::span<ObserveJob> jobs) {
  const auto width = static_cast<std::size_t>(head.width());
  std::size_t rows = 0;
  std::vector<float> tapped;
  for (const ObserveJob& job : jobs) {
    rows += job.committed.size();
    append(tapped, job.features);
  }
  std::vector<float> fused(rows * width);
  head.fuse(tapped, static_cast<int>(rows), fused.data());

  std::vector<float> read;  // what the rows read: the fused features, one row later
  read.reserve(fused.size());
  std::vector<Head::Rows> batch;
  std::vector<Transaction> transactions;
  for (const ObserveJob& job : jobs) {
    const auto& draft = static_cast<const HeadDraft&>(*job.draft);
    Cache& cache = *draft.cache_;
    const std::size_t first = read.size();
    const std::span<const float> own = std::span(fused).subspan(first, job.committed.size() * width);
    draft.append_last_feature(read);
    append(read, own.first(own.size() - width));
    transactions.push_back(cache.begin(static_cast<int>(job.committed.size())));
    draft.features().write(cache.length(), own);
    batch.push_back({.cache = &cache, .tokens = job.committed, .features = std::span(read).subspan(first)});
  }
  head.forward(batch);
  for (std::size_t i = 0; i < jobs.size(); ++i) transactions[i].commit(batch[i].rows());
}

void HeadDraft::propose_together(Head& head, Shape shape, std::span<ProposeJob> jobs) {
  for (const ProposeJob& job : jobs) {
    const int max = static_cast<const HeadDraft&>(*job.draft).draft_max_;
    REQUIRE(job.limit >= 1 && job.limit <= max, "a draft is asked for at most draft_max() draft tokens");
  }
  if (head.mask() != nullptr) return propose_in_parallel(head, jobs);
  shape == Shape::chain ? propose_chains(head, jobs) : propose_trees(head, jobs);
}

void HeadDraft::propose_chains(Head& head, std::span<ProposeJob> jobs) {
  struct Writer {
    ProposeJob& job;
    Cache& cache;
    const Cache* target;
    Transaction rolled_back;
    const MinProbability& min_probability;
    Token token;                       // the next row reads it
    std::vector<float> features = {};  // and this
    bool done = false;
  };
  std::vector<Writer> writers;
  for (ProposeJob& job : jobs) {
    auto& draft = static_cast<HeadDraft&>(*job.draft);
    writers.push_back(
        {job, *draft.cache_, draft.target_, draft.cache_->begin(job.limit), draft.min_probability_, job.anchor});
    draft.anchor_ = draft.cache_->end();
    draft.append_last_feature(writers.back().features);
  }
  constexpr int wanted[] = {0};
  std::vector<Head::Rows> batch;
  std::vector<Writer*> in_batch;
  for (int step = 0;; ++step) {
    batch.clear();
    in_batch.clear();
    for (Writer& writer : writers) {
      if (writer.job.error || writer.done || step >= writer.job.limit) continue;
      batch.push_back({.cache = &writer.cache,
                       .target = writer.target,
                       .tokens = std::span(&writer.token, 1),
                       .features = writer.features,
                       .wanted = wanted});
      in_batch.push_back(&writer);
    }
    if (batch.empty()) return;
    head.forward(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Writer& writer = *in_batch[i];
      try {
        if (!batch[i].error.empty()) throw Error(batch[i].error);
        writer.done = writer.min_probability.stops_before(batch[i].logits);
        if (writer.done) continue;
        writer.token = writer.job.builder->draw(batch[i].logits);
        writer.features.assign(batch[i].next_features.begin(), batch[i].next_features.end());
      } catch (...) {
        writer.job.error = std::current_exception();
      }
    }
  }
}

/// Each pass computes the branches to the nodes that are expanded anew: a cache takes the rows of a tree in preorder
/// only, and a row of one layer costs little beside its logits.
void HeadDraft::propose_trees(Head& head, std::span<ProposeJob> jobs) {
  struct Grower {
    ProposeJob& job;
    HeadDraft& draft;
    DraftTree tree;
    std::map<int, std::vector<float>> features = {};  // read by the rows below this node; parent(anchor): by its row
    DraftTree::Pass pass = {};
    std::vector<float> read = {};  // by the rows of the pass
  };
  std::vector<Grower> growers;
  for (ProposeJob& job : jobs) {
    growers.push_back({job, static_cast<HeadDraft&>(*job.draft), DraftTree(job.anchor, job.limit)});
    Grower& grower = growers.back();
    grower.draft.append_last_feature(grower.features[grower.tree.parent(DraftTree::anchor)]);
  }
  const auto width = static_cast<std::size_t>(head.width());
  Sampler sampler;
  for (;;) {
    std::vector<Head::Rows> batch;
    std::vector<Grower*> in_batch;
    std::vector<Transaction> rolled_back;
    for (Grower& grower : growers) {
      if (grower.job.error) continue;
      grower.pass = grower.tree.next_pass();
      if (grower.pass.wanted.empty()) continue;
      grower.read.clear();
      for (const int node : grower.pass.nodes) append(grower.read, grower.features.at(grower.tree.parent(node)));
      Cache& cache = *grower.draft.cache_;
      rolled_back.push_back(cache.begin(static_cast<int>(grower.pass.nodes.size())));
      grower.draft.anchor_ = cache.end();
      batch.push_back({.cache = &cache,
                       .target = grower.draft.target_,
                       .tokens = grower.pass.tokens,
                       .depths = grower.pass.depths,
                       .features = grower.read,
                       .wanted = grower.pass.wanted});
      in_batch.push_back(&grower);
    }
    if (batch.empty()) break;
    head.forward(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Grower& grower = *in_batch[i];
      try {
        if (!batch[i].error.empty()) throw Error(batch[i].error);
        const std::size_t wanted = grower.pass.wanted.size();
        const std::size_t vocabulary = batch[i].logits.size() / wanted;
        for (std::size_t k = 0; k < wanted; ++k) {
          const int node = grower.pass.nodes[static_cast<std::size_t>(grower.pass.wanted[k])];
          grower.tree.expand(node, batch[i].logits.subspan(k * vocabulary, vocabulary), sampler);
          append(grower.features[node], batch[i].next_features.subspan(k * width, width));
        }
      } catch (...) {
        grower.job.error = std::current_exception();
      }
    }
  }
  for (const Grower& grower : growers) {
    if (!grower.job.error) grower.tree.add_to(*grower.job.builder);
  }
}

void HeadDraft::propose_in_parallel(Head& head, std::span<ProposeJob> jobs) {
  const Head::Mask& mask = *head.mask();
  struct Block {
    std::vector<Token> tokens;
    std::vector<float> features = {};
    std::vector<int> wanted = {};
  };
  std::vector<Block> blocks;
  std::vector<Transaction> rolled_back;
  for (const ProposeJob& job : jobs) {
    auto& draft = static_cast<HeadDraft&>(*job.draft);
    const int rows = draft.shape_ == Shape::chain ? job.limit : std::min(job.limit, draft.longest_path_);
    Block& block = blocks.emplace_back(std::vector<Token>(static_cast<std::size_t>(rows), mask.token));
    block.tokens[0] = job.anchor;
    draft.append_last_feature(block.features);
    for (int row = 1; row < rows; ++row) append(block.features, mask.feature);
    block.wanted.resize(block.tokens.size());
    std::iota(block.wanted.begin(), block.wanted.end(), 0);
    rolled_back.push_back(draft.cache_->begin(rows));
    draft.anchor_ = draft.cache_->end();
  }
  std::vector<Head::Rows> batch;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& draft = static_cast<const HeadDraft&>(*jobs[i].draft);
    batch.push_back({.cache = draft.cache_.get(),
                     .target = draft.target_,
                     .tokens = blocks[i].tokens,
                     .features = blocks[i].features,
                     .wanted = blocks[i].wanted});
  }
  head.forward(batch);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    try {
      if (!batch[i].error.empty()) throw Error(batch[i].error);
      static_cast<const HeadDraft&>(*jobs[i].draft).add(batch[i], jobs[i].limit, *jobs[i].builder);
    } catch (...) {
      jobs[i].error = std::current_exception();
    }
  }
}

void HeadDraft::add(const Head::Rows& rows, int limit, ProposalBuilder& builder) const {
  const std::size_t vocabulary = rows.logits.size() / rows.wanted.size();
  if (shape_ == Shape::tree) {
    add_most_probable_paths(rows.logits, static_cast<int>(vocabulary), limit, builder);
    return;
  }
  for (std::size_t row = 0; row < rows.wanted.size(); ++row) {
    const std::span<const float> logits = rows.logits.subspan(row * vocabulary, vocabulary);
    if (min_probability_.stops_before(logits)) return;
    builder.draw(logits);
  }
}

std::unique_ptr<Draft> HeadDrafter::open(int capacity, int draft_max) {
  REQUIRE(capacity <= reach(), "the text fits the head's context");
  if (tree_ > 0) {
    const int budget = std::min({draft_max > 0 ? draft_max : tree_, tree_, capacity});
    return std::make_unique<HeadDraft>(*head_, capacity, budget, HeadDraft::Shape::tree);
  }
  const int trained = head_->mask() != nullptr ? head_->mask()->draft_tokens : 0;
  const int longest = draft_tokens_per_round(draft_max > 0 ? draft_max : trained, capacity);
  return std::make_unique<HeadDraft>(*head_, capacity, longest, HeadDraft::Shape::chain, min_probability_);
}

}  // namespace draftproof
