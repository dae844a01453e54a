// SPDX-License-Identifier: MIT
// A model that was trained to draft in parallel (PARD: An, Bai, Liu, Li, Barsoum 2025). One pass reads the anchor and
// behind it a mask token for each draft token more, as ordinary causal rows; the anchor's row says the first draft
// token, each mask's the next one. So no draft token depends on another: they are drawn one by one from their rows, or
// make a tree of the most probable paths (marginal_tree.h). Without masks it is a model like any other.
//
// Rows of masks are dropped; what the text takes of the proposal is read with the next one, in the same pass.
//
// Example: the text is [1, 2, 3], the cache holds 1 and 2, and the mask token is 9. A pass over [3, 9, 9] draws 4, 5
// and 6. Where the text takes 4 and goes on with 7, the row of 3 is kept, and the next pass reads [4, 7, 9, 9].
// Sources: AMD-AGI/PARD, pard/pard_infer.py; vLLM, v1/spec_decode/llm_base_proposer.py.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ref/drafts/model_draft.h"

namespace draftproof {

/// What a proposal is.
struct PardShape {
  Token mask;
  int tree = 0;  // draft tokens of a tree; 0: a chain, which ends where `min_probability` says
  MinProbability min_probability = {};
};

/// Drafts over one model, whose proposals are one pass.
class PardDrafter final : public ModelDrafter {
 public:
  PardDrafter(std::unique_ptr<Model> model, const PardShape& shape)
      : ModelDrafter(*model), own_(std::move(model)), shape_(shape) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  int reach() const override { return own_->context(); }

 protected:
  void extend(std::span<Continuation> texts) override;

 private:
  void add(std::span<const float> rows, int count, const ProposeJob& job) const;

  std::unique_ptr<Model> own_;
  PardShape shape_;
};

class PardDraft final : public ModelDraft {
 public:
  /// `drafter` outlives the draft.
  PardDraft(PardDrafter& drafter, Model& model, int capacity, int draft_max)
      : ModelDraft(model, capacity, draft_max), drafter_(drafter) {}

  ProposalWork work() const override { return ProposalWork::one_pass; }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;

 private:
  PardDrafter& drafter_;
};

}  // namespace draftproof
