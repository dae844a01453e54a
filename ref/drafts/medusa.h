// SPDX-License-Identifier: MIT
// Medusa heads as a draft (ref/models/medusa.h): one pass over the last committed position's feature says all draft
// tokens. What is kept of a text are its features, so that it can go on from any prefix of it; only the last is read.
//
// Example: the text is [1, 2, 3], and the target gave the features f1 of 1 and f2 of 2. The heads read f2: the first
// says what follows the anchor 3, the second one what follows that, whatever it is. A text of one token has no feature,
// so nothing is proposed.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ref/drafts/draft.h"
#include "ref/drafts/most_probable.h"
#include "ref/models/medusa.h"

namespace draftproof {

class MedusaDraft final : public Draft {
 public:
  /// `heads` outlives the draft. `tree`: draft tokens of a tree; 0: a chain, which ends where `min_probability` says.
  MedusaDraft(MedusaHeads& heads, int capacity, int tree = 0, MinProbability min_probability = {});

  int draft_max() const override { return tree_ > 0 ? tree_ : heads_.count(); }
  ProposalWork work() const override { return ProposalWork::as_asked; }  // each head reads an LM head
  std::span<const int> taps() const override { return heads_.taps(); }
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override;
  Cache* context() override { return cache_.get(); }
  Fingerprint digest() const override { return cache_->digest(); }
  std::vector<DraftPositions> positions() const override { return {{.held = cache_->length(), .anchor = anchor_}}; }

 private:
  friend class MedusaDrafter;
  static void propose_together(MedusaHeads& heads, std::span<ProposeJob> jobs);
  std::unique_ptr<Cache> new_cache() const;
  void add(const MedusaHeads::Text& text, int limit, ProposalBuilder& builder) const;

  MedusaHeads& heads_;
  int capacity_;
  int tree_;
  MinProbability min_probability_;
  std::unique_ptr<Cache> cache_;
  int anchor_ = -1;  // position of the anchor in the last proposal
};

/// The same heads for all sequences, whose proposals are one pass.
class MedusaDrafter final : public Drafter {
 public:
  explicit MedusaDrafter(std::unique_ptr<MedusaHeads> heads, int tree = 0, MinProbability min_probability = {})
      : heads_(std::move(heads)), tree_(tree), min_probability_(min_probability) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  void propose(std::span<ProposeJob> jobs) override { MedusaDraft::propose_together(*heads_, jobs); }

 private:
  std::unique_ptr<MedusaHeads> heads_;
  int tree_;
  MinProbability min_probability_;
};

}  // namespace draftproof
