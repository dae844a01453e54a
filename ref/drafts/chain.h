// SPDX-License-Identifier: MIT
// Several drafts for one text, asked in order: the first that proposes anything makes the proposal. All of them observe
// all committed tokens. At most one keeps a cache or reads features; the others read the text, or the target's cache.
//
// The one with a cache observes the prompt at once. What the rounds commit it observes when it is asked, in passes for
// all rounds since, or earlier when the features that wait for it take more than `waiting_features_max`: where another
// stage proposes or nothing is drafted, it costs little.
//
// Example: suffix+model:PATH. Where the end of the text occurred before, suffix proposes and the model computes
// nothing. Where it did not, the model reads what was committed since it was last asked, and proposes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ref/drafts/text_draft.h"
#include "ref/drafts/tuner.h"

namespace draftproof {

class ChainDraft final : public Draft {
 public:
  static constexpr std::size_t waiting_features_max = 16U << 20;  // bytes
  enum class Costs { measured, as_given };

  /// At most one of the stages keeps a cache or reads features. `tuner`: chooses the length of every proposal; it has
  /// learned from the rounds of this text only, and forgets nothing of them. `costs`: where they are as given, no clock
  /// has a part in what it chooses. `own`: so many of the first stages are of this text alone, and none of its drafter.
  explicit ChainDraft(std::vector<std::unique_ptr<Draft>> stages, std::optional<Tuner> tuner = std::nullopt,
                      Costs costs = Costs::measured, std::size_t own = 0);

  int draft_max() const override;
  std::span<const int> taps() const override;
  void observe(std::span<const Token> committed, std::span<const float> features) override;
  void begin_rounds() override { in_prompt_ = false; }
  void propose(Token anchor, int limit, ProposalBuilder& builder) override;
  void forget() override;
  Cache* context() override;
  void make_room(const ContextShift& shift) override;
  void use_target_cache(Cache& cache) override;
  bool needs_no_snapshot() const override { return network_ == nullptr || network_->needs_no_snapshot(); }
  void skip(std::span<const Token> prefix) override;
  int reach() const override;
  Fingerprint digest() const override;
  std::vector<DraftPositions> positions() const override;
  std::span<const DraftTimes> times() const override { return times_; }
  const DraftCosts* costs() const override { return tuner_ ? &tuner_->costs() : nullptr; }
  bool wants_times() const override { return tuner_ && costs_ == Costs::measured; }
  void took(const RoundSeconds& seconds) override;

 private:
  friend class ChainDrafter;
  /// The draft tokens that a stage is asked for; 0: it is not asked.
  int asked_of(std::size_t stage, int limit) const;
  void begin_proposal();
  /// Asks a stage, unless one before has proposed something.
  void ask(std::size_t stage, Token anchor, int limit, ProposalBuilder& builder);
  void note(const ProposalBuilder& builder);  // once all stages have been asked that are
  bool has_unread() const noexcept { return !unread_tokens_.empty(); }
  DraftTimes& times_of(const Draft& stage) const;
  /// Where the time goes that a stage takes to observe something.
  double& observing(const Draft& stage) const;
  /// What the stage with a cache is to observe next: the first of what it has not, as much as one call takes.
  ObserveJob unread() const;
  void was_read(const ObserveJob& job) const;  // once it has
  /// Whether it has something to observe that was committed before the last round.
  bool is_late() const noexcept { return unread_tokens_.size() > kept_last_; }
  void read() const;  // lets it observe everything
  bool room_for(std::span<const float> features) const noexcept;
  void keep(std::span<const Token> committed, std::span<const float> features);
  void take_back(std::size_t committed);  // what was kept last

  std::vector<std::unique_ptr<Draft>> stages_;
  std::vector<TextDraft*> text_;  // the stages that read the text only
  Draft* network_ = nullptr;      // the one that keeps a cache or reads features
  std::optional<Tuner> tuner_;
  Costs costs_;
  std::size_t own_;
  bool in_prompt_ = true;      // no round has begun
  std::size_t kept_last_ = 0;  // tokens of the last round that it was told of

  // Mutable because it counts as observed wherever the draft is looked at.
  mutable std::vector<Token> unread_tokens_;
  mutable std::vector<float> unread_features_;
  mutable std::vector<DraftTimes> times_;  // [stage]

  // The last proposal, until its round is known.
  struct Proposed {
    std::vector<int> asked;  // Proposal::asked
    int drafted = 0;
    std::optional<RoundSeconds> seconds;
  };
  std::optional<Proposed> proposed_;
};

class ChainDrafter final : public Drafter {
 public:
  explicit ChainDrafter(std::vector<std::shared_ptr<Drafter>> stages) : stages_(std::move(stages)) {}

  std::unique_ptr<Draft> open(int capacity, int draft_max) override { return open(capacity, draft_max, {}); }
  /// `own`: drafts of this text alone, which keep no cache, asked before the stages.
  std::unique_ptr<Draft> open(int capacity, int draft_max, std::vector<std::unique_ptr<Draft>> own);
  /// The same with a tuner.
  std::unique_ptr<Draft> open_tuned(int capacity, int draft_max, std::vector<std::unique_ptr<Draft>> own);
  void propose(std::span<ProposeJob> jobs) override;
  void observe(std::span<ObserveJob> jobs) override;

  std::span<const std::shared_ptr<Drafter>> stages() const noexcept { return stages_; }

 private:
  /// Appends the drafts of the stages to those of the text.
  std::vector<std::unique_ptr<Draft>> open_stages(int capacity, int draft_max, std::vector<std::unique_ptr<Draft>> own);
  /// Lets the stages with a cache observe what these drafts have kept. What it throws becomes the job's error. Returns
  /// the seconds that this took where some of it was committed before the last round.
  template <class Job>
  double read(std::span<Job* const> jobs);

  std::vector<std::shared_ptr<Drafter>> stages_;
};

}  // namespace draftproof
