// SPDX-License-Identifier: MIT
// DFlash as a draft: the target's features of committed positions become context, and one forward pass proposes a
// DFlash block. The network is shared; a draft holds the context of one sequence.
//
// A draft token is drawn from the logits of its position. With a candidate selector (DFlash2) it is drawn from scores:
// those of the position's most probable tokens (most_probable.h), which depend on the token drawn before, the anchor
// for the first; no other token can be drawn.
//
// Example: a block of 4, the anchor 7 at position 10. One pass reads [7, MASK, MASK, MASK] at positions 10 to 13, and
// the rows of the three masks give the draft tokens of positions 11 to 13.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "ref/drafts/draft.h"
#include "ref/drafts/most_probable.h"
#include "ref/models/dflash.h"

namespace draftproof {

class DFlashDraft final : public Draft {
 public:
  /// `network` outlives the draft. `tree`: draft tokens of a tree; 0: a chain, which ends where `min_probability` says.
  DFlashDraft(DFlashNetwork& network, int capacity, int tree = 0, MinProbability min_probability = {});

  int draft_max() const override { return tree_ > 0 ? tree_ : longest_chain(); }
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
  int longest_chain() const { return network_.config().block_size - 1; }
  DFlashNetwork::Block block(Token anchor, int limit) const;
  void add(const DFlashNetwork::Block& block, int limit, ProposalBuilder& builder);
  std::vector<float> selected(const DFlashNetwork::Block& block, int mask, std::span<const float> logits,
                              Token previous) const;

  DFlashNetwork& network_;
  int capacity_;
  int tree_;
  MinProbability min_probability_;
  std::unique_ptr<Cache> context_;
  int anchor_ = -1;  // position of the anchor in the last proposal
};

/// One network, which computes the blocks of all sequences in one pass, and their context rows in another.
class DFlashDrafter final : public Drafter {
 public:
  /// `tree`: draft tokens of a tree, chosen from the block's marginals; 0: chains. A network with a candidate selector,
  /// which has no marginals, drafts chains only. `context`: serves at most so many positions of a text.
  explicit DFlashDrafter(std::unique_ptr<DFlashNetwork> network, int tree = 0, MinProbability min_probability = {},
                         int context = std::numeric_limits<int>::max())
      : network_(std::move(network)),
        tree_(tree),
        min_probability_(min_probability),
        reach_(std::min(context, network_->config().transformer.context)) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  int reach() const override { return reach_; }
  void propose(std::span<ProposeJob> jobs) override;
  void observe(std::span<ObserveJob> jobs) override;

 private:
  std::unique_ptr<DFlashNetwork> network_;
  int tree_;
  MinProbability min_probability_;
  int reach_;
};

}  // namespace draftproof
