// SPDX-License-Identifier: MIT
// A head as a draft (ref/models/head.h): it continues the committed text with its own features, in transactions that
// are rolled back afterwards. What is kept are rows of committed tokens with the target's features, so a row of a draft
// token never outlives its round, also when the token was accepted.
//
// The last observed position's feature is read by the row of the next token, which is not known before the next round.
// So the features are a layer of the cache, behind the head's own.
//
// A head that drafts in parallel (Head::mask) has all rows of a proposal in one pass. They are marginals, so draft
// tokens are drawn from them one by one, or make a tree of the most probable paths (marginal_tree.h).
//
// Example: the text is [1, 2, 3], and the target gave the features f1 of 1 and f2 of 2. A row that reads the anchor 3
// and f2 draws 4 and returns g3; one that reads 4 and g3 draws 5: the proposal is [4, 5]. Both rows are rolled back.
// Where the text takes 4, its row is computed again, from 4 and the target's f3.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ref/caches/feature_cache.h"
#include "ref/drafts/draft.h"
#include "ref/drafts/draft_spec.h"
#include "ref/drafts/most_probable.h"
#include "ref/models/head.h"

namespace draftproof {

class HeadDraft final : public Draft {
 public:
  /// What it proposes: a chain, each token drawn from the head's row; or the most likely continuations (draft_tree.h,
  /// marginal_tree.h).
  enum class Shape { chain, tree };

  /// `head` outlives the draft. `min_probability`: where a chain ends.
  HeadDraft(Head& head, int capacity, int draft_max, Shape shape = Shape::chain, MinProbability min_probability = {});

  int draft_max() const override { return draft_max_; }
  ProposalWork work() const override { return head_.mask() ? ProposalWork::one_pass : ProposalWork::passes; }
  std::span<const int> taps() const override { return head_.taps(); }
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override;
  Cache* context() override { return cache_.get(); }
  void use_target_cache(Cache& cache) override { target_ = &cache; }
  Fingerprint digest() const override { return cache_->digest(); }
  std::vector<DraftPositions> positions() const override { return {{.held = cache_->length(), .anchor = anchor_}}; }

 private:
  friend class HeadDrafter;
  static void propose_together(Head& head, Shape shape, std::span<ProposeJob> jobs);
  static void propose_chains(Head& head, std::span<ProposeJob> jobs);
  static void propose_trees(Head& head, std::span<ProposeJob> jobs);
  static void propose_in_parallel(Head& head, std::span<ProposeJob> jobs);
  static void observe_together(Head& head, std::span<ObserveJob> jobs);

  std::unique_ptr<Cache> new_cache();
  FeatureCache& features() const { return cache_->layer<FeatureCache>(feature_layer_); }
  /// Appends the feature that the next row reads, zeros for row 0, to `to`.
  void append_last_feature(std::vector<float>& to) const;
  /// Adds what rows of a parallel pass say.
  void add(const Head::Rows& rows, int limit, ProposalBuilder& builder) const;

  Head& head_;
  int capacity_;
  int draft_max_;
  int longest_path_;  // of a tree
  Shape shape_;
  MinProbability min_probability_;
  int feature_layer_ = 0;
  std::unique_ptr<Cache> cache_;
  const Cache* target_ = nullptr;
  int anchor_ = -1;  // position of the anchor in the last proposal
};

/// Of kinds over a head.
inline constexpr DraftOption head_tree_option = {"tree", 0, 0, 256,
                                                 "draft tokens of a tree of the most likely ones; 0: a chain is drawn"};

/// Drafts over one head: each step of all proposals is one pass of the head, and what all drafts observe is one, too.
class HeadDrafter final : public Drafter {
 public:
  /// `tree`: the most draft tokens of a tree; 0: the drafts propose chains.
  explicit HeadDrafter(std::unique_ptr<Head> head, int tree = 0, MinProbability min_probability = {})
      : head_(std::move(head)), tree_(tree), min_probability_(min_probability) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  int reach() const override { return head_->context(); }
  void propose(std::span<ProposeJob> jobs) override {
    HeadDraft::propose_together(*head_, tree_ > 0 ? HeadDraft::Shape::tree : HeadDraft::Shape::chain, jobs);
  }
  void observe(std::span<ObserveJob> jobs) override { HeadDraft::observe_together(*head_, jobs); }

 private:
  std::unique_ptr<Head> head_;
  int tree_;
  MinProbability min_probability_;
};

}  // namespace draftproof
