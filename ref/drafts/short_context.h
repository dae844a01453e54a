// SPDX-License-Identifier: MIT
// A draft that keeps a cache of the text, and does not reach as far as the target: most EAGLE-3 heads were trained with
// 2048 positions, beside targets of 131072, and a recurrent model cannot follow a context shift. The target's limits
// are the limits of a text. Up to its own last position the draft drafts; a text that grows beyond it goes on plainly,
// and the draft gives its memory back.
//
// Example: 2048 positions, a text whose first 2045 tokens are in the draft's cache. Three positions are left: one for
// the anchor, two for draft tokens. Two tokens later there is room for the anchor only, and nothing is drafted.
//
// What it keeps, and whether it proposes, follows from the length of the text and its context shift alone.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ref/drafts/draft.h"

namespace draftproof {

class ShortContextDraft : public Draft {
 public:
  /// `drafter` outlives the draft; its drafts keep a cache of the text (Draft::context).
  ShortContextDraft(Drafter& drafter, int reach, int capacity, int draft_max);

  int draft_max() const override { return draft_max_; }
  ProposalWork work() const override { return work_; }
  std::span<const int> taps() const override { return taps_; }
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override;
  void use_target_cache(Cache& cache) override;
  Cache* context() override { return draft_ ? draft_->context() : nullptr; }
  /// Where positions of its cache cannot be dropped, it ends.
  void make_room(const ContextShift& shift) override;
  bool needs_no_snapshot() const override { return draft_ == nullptr; }
  /// A prefix that was restored without the draft's cache leaves it behind: nothing is proposed for this text.
  void skip(std::span<const Token> prefix) override;
  int reach() const override { return reach_; }
  Fingerprint digest() const override { return draft_ ? draft_->digest() : Fingerprint{}; }
  std::vector<DraftPositions> positions() const override;

 private:
  friend class ShortContextDrafter;
  /// The positions that are left to it.
  int room() const;
  /// The anchor takes a position, and each draft token: those of a tree are all read.
  int draft_tokens_max(int limit) const;

  Drafter& drafter_;
  int reach_;
  int capacity_;
  std::unique_ptr<Draft> draft_;  // nullptr: the text is longer than it reaches
  int draft_max_;
  ProposalWork work_;
  std::span<const int> taps_;
  Cache* target_ = nullptr;
};

class ShortContextDrafter final : public Drafter {
 public:
  ShortContextDrafter(std::unique_ptr<Drafter> drafter, int reach) : drafter_(std::move(drafter)), reach_(reach) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override;
  int reach() const override { return reach_; }
  void propose(std::span<ProposeJob> jobs) override;
  void observe(std::span<ObserveJob> jobs) override;

 private:
  std::unique_ptr<Drafter> drafter_;
  int reach_;
};

/// Returns the drafter, whose drafts end where they do not reach further, or behind `context` positions. One whose
/// drafts have no such end is returned as it is.
std::unique_ptr<Drafter> for_texts_of_any_length(std::unique_ptr<Drafter> drafter,
                                                 int context = std::numeric_limits<int>::max());

}  // namespace draftproof
