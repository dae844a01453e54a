// SPDX-License-Identifier: MIT
// DFlash as a draft: the target's features of committed positions become context, and one forward pass proposes a
// DFlash block. The network is shared; a draft holds the context of one sequence.
//
// A draft token is drawn from the logits of its position. With a candidate selector (DFlash2) it is drawn from scores:
// those of the position's most probable tokens (most_probable.h), which depend on the token drawn before, the anchor
// for the first; no other token can be drawn. With a Markov head (DSpark) what it adds for the token drawn before is a
// part of the logits. So positions are drawn one after the other, in all blocks of a pass together.
//
// Example: a block of 4, the anchor 7 at position 10. One pass reads [7, MASK, MASK, MASK] at positions 10 to 13, and
// the rows of the three masks give the draft tokens of positions 11 to 13.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ref/drafts/draft.h"
#include "ref/drafts/most_probable.h"
#include "ref/models/dflash.h"

namespace draftproof {

/// What a draft makes of a block.
struct DFlashShape {
  int tree = 0;  // draft tokens of a tree, chosen from the block's marginals; 0: a chain, which ends where these say
  MinProbability min_probability = {};
  /// A chain ends before the first draft token whose confidence is less. It is known before the token is drawn, as
  /// MinProbability needs it; the next one's confidence is not, because that reads the token.
  double min_confidence = 0;
};

class DFlashDraft final : public Draft {
 public:
  /// `network` outlives the draft.
  DFlashDraft(DFlashNetwork& network, int capacity, const DFlashShape& shape = {});

  int draft_max() const override { return shape_.tree > 0 ? shape_.tree : network_.config().longest_chain(); }
  ProposalWork work() const override { return ProposalWork::one_pass; }
  std::span<const int> taps() const override { return network_.config().taps; }
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override;
  Cache* context() override { return context_.get(); }
  Fingerprint digest() const override { return context_->digest(); }
  std::vector<DraftPositions> positions() const override {
    return {{.held = context_->length(), .anchor = anchor_, .passed = passed()}};
  }

 private:
  friend class DFlashDrafter;
  std::unique_ptr<Cache> new_context() const;
  int passed() const;  // DraftPositions::passed
  static void propose_together(DFlashNetwork& network, std::span<ProposeJob> jobs);
  void add_tree(const DFlashNetwork::Block& block, int limit, ProposalBuilder& builder) const;
  bool draw(const DFlashNetwork::Step& step, ProposalBuilder& builder) const;
  std::vector<float> selected(const DFlashNetwork::Step& step) const;

  DFlashNetwork& network_;
  int capacity_;
  DFlashShape shape_;
  std::unique_ptr<Cache> context_;
  int anchor_ = -1;  // position of the anchor in the last proposal
};

/// One network, which computes the blocks of all sequences in one pass, and their context rows in another.
class DFlashDrafter final : public Drafter {
 public:
  /// A network with a candidate selector or a Markov head, whose rows are no marginals, drafts chains only.
  explicit DFlashDrafter(std::unique_ptr<DFlashNetwork> network, const DFlashShape& shape = {})
      : network_(std::move(network)), shape_(shape) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  int reach() const override { return network_->config().transformer.context; }
  void propose(std::span<ProposeJob> jobs) override;
  void observe(std::span<ObserveJob> jobs) override;

 private:
  std::unique_ptr<DFlashNetwork> network_;
  DFlashShape shape_;
};

}  // namespace draftproof
