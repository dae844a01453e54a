// SPDX-License-Identifier: MIT
// The target's own layers as its draft, with smaller weights or without the last layers. It continues the text over the
// target's cache, in a transaction that is rolled back, and keeps nothing of the text itself: its keys and values of
// committed tokens are the target's.
//
// Example: the text is [1, 2, 3], and the target's cache holds 1 and 2. The draft reads the anchor 3 and draws 4, then
// reads 4 and draws 5: the proposal is [4, 5]. The rows of 3 and 4 are rolled back, and the target reads [3, 4, 5].
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ref/drafts/draft.h"
#include "ref/drafts/most_probable.h"
#include "ref/models/model.h"

namespace draftproof {

class SelfDraft final : public Draft {
 public:
  /// The layers of `model` are the first ones of the target; it outlives the draft.
  SelfDraft(Model& model, int draft_max, MinProbability min_probability = {})
      : model_(model), draft_max_(draft_max), min_probability_(min_probability) {}

  int draft_max() const override { return draft_max_; }
  void observe(std::span<const Token>, std::span<const float>) override {}
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override {}
  void use_target_cache(Cache& cache) override { target_ = &cache; }
  bool needs_no_snapshot() const override { return true; }
  std::vector<DraftPositions> positions() const override {
    if (target_ == nullptr) return {};
    return {{.held = target_->length(), .anchor = anchor_}};
  }

 private:
  friend class SelfDrafter;

  Model& model_;
  int draft_max_;
  MinProbability min_probability_;
  Cache* target_ = nullptr;
  int anchor_ = -1;  // position of the anchor in the last proposal
  Outputs outputs_;
};

/// Drafts over one model: each step of all proposals is one forward pass.
class SelfDrafter final : public Drafter {
 public:
  explicit SelfDrafter(std::unique_ptr<Model> model, MinProbability min_probability = {})
      : model_(std::move(model)), min_probability_(min_probability) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  void propose(std::span<ProposeJob> jobs) override { propose_together(*model_, outputs_, jobs); }

 private:
  friend class SelfDraft;
  static void propose_together(Model& model, Outputs& outputs, std::span<ProposeJob> jobs);

  std::unique_ptr<Model> model_;
  MinProbability min_probability_;
  Outputs outputs_;
};

}  // namespace draftproof
