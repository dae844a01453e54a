// SPDX-License-Identifier: MIT
// The decoding of one text, cut at the forward passes, so that a scheduler can run one pass for many of them. A pass of
// a sequence either reads the next chunk of its text (prefill) or is the verification pass of a round: propose draft
// tokens, run the target over the anchor and the draft tokens, apply the acceptance rule, stop at a stop token, keep
// the accepted rows, and record the round. Plain autoregressive decoding is this with the empty draft.
//
//   prepare -> (draft proposes) -> plan -> (target's forward pass) -> absorb -> (draft observes) -> commit
//
// Between passes the target's cache and the draft hold the same positions: all of the text but the anchor, its last
// token, or, while the text is being read, the part that was read. At the end the cache holds prompt + output - 1
// positions. (When cancelled while reading, the part that was read.) Under a context shift they hold fewer; a pass has
// no more rows than there is room for, so where the context is shifted depends on the text alone. A pass is kept
// completely or not at all, and a round is recorded before its callback sees it. So an exception at any point, of the
// target, the draft or the callback, leaves cache, draft and output consistent, and the sequence can continue from
// there.
//
// What a sequence computes never depends on the sequences beside it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ref/acceptance/feedback.h"
#include "ref/acceptance/random_source.h"
#include "ref/acceptance/rule.h"
#include "ref/acceptance/sampler.h"
#include "ref/caches/prefix_cache.h"
#include "ref/decoding/draft_lengths.h"
#include "ref/decoding/trace.h"
#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof {

/// What is recorded of every round. counts: the tokens and statistics only. digests: also fingerprints of every row and
/// cache, and the q of every draft token, for the oracle.
enum class Recording { counts, digests };

/// What follows a round: the next one, or the end of the text, as stopped or as cancelled.
enum class Next { go_on, stop, cancel };

/// Called after every round, once it is recorded as the last of the trace's rounds.
struct RoundCallback {
  std::function<Next(const Trace&)> on_round;
  bool rows = false;  // during the call the round has its rows, their digests and the q of every draft token
};

/// The collaborators of a sequence. They outlive it.
struct Collaborators {
  Model& target;
  Draft& draft;
  const Rule& rule;
  RandomSource& random;
  Drafter* drafter = nullptr;                // that opened the draft; nullptr: the draft works alone
  StopCondition* stop = nullptr;             // ends the text beside the stop tokens
  std::vector<std::string> own_stages = {};  // Trace::own_stages
  std::string draft_name = {};    // of what the draft keeps of the text, in a prefix cache; empty: it keeps nothing
  std::string prefix_owner = {};  // of the text there
};

/// Scratch memory that the sequences of a scheduler share.
struct SequenceScratch {
  Sampler sampler;
  Distribution row;  // the target distribution read last
  Outputs again;     // of rows that are read again
};

/// The caches of a sequence by their names in a prefix cache; empty when the draft keeps the text in a way of its own.
/// `draft_name`: as in Collaborators.
PrefixCache::Parts parts_in_prefix_cache(Cache& target, Draft& draft, const std::string& draft_name);

class Sequence {
 public:
  /// request_error must be empty for the target.
  Sequence(const Collaborators& with, Request request, const Execution& execution, Recording recording);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  /// Whom to call after each round, and a flag that is looked at between passes and cancels the sequence.
  void watch(RoundCallback callback, const std::atomic<bool>* cancelled);
  /// Continues after a cancellation or an error.
  void resume();
  /// The next rounds have at most so many draft tokens. Not inside a pass.
  void limit_draft(int draft_tokens) noexcept { draft_limit_ = draft_tokens; }
  /// What its draft tokens have shown, for whom they are limited by.
  DraftLengths::Text& shown_by_draft() noexcept { return shown_by_draft_; }
  /// Gives back the memory of the caches; the next passes read the text again. Not inside a pass.
  void preempt();

  /// Takes the caches of the longest prefix that is known; the next passes read the rest of the text. Not inside a
  /// pass.
  void reuse(PrefixCache& prefixes);
  /// Gives copies of the caches to the prefix cache. Not inside a pass.
  void publish(PrefixCache& prefixes);

  const Trace& trace() const& noexcept { return trace_; }
  Trace trace() && { return std::move(trace_); }
  const Cache& cache() const noexcept { return *cache_; }
  const Collaborators& with() const noexcept { return with_; }
  /// Whether load limits its draft tokens: where there is a draft and no prediction of the text. As long as the text
  /// follows its prediction nearly all of them are accepted, and where it does not few are proposed.
  bool is_limited() const noexcept {
    return pending_rows_ > 1 && (trace_.own_stages.empty() || trace_.own_stages.front() != prediction_stage);
  }
  bool finished() const noexcept { return trace_.finish != Finish::unfinished; }
  /// What ended the last pass early; nullptr when nothing did.
  const std::exception_ptr& error() const noexcept { return error_; }

  /// The positions of the text now.
  int positions() const noexcept { return static_cast<int>(text_.size()); }
  /// The most positions that its cache may hold.
  int capacity() const noexcept { return cache_->capacity(); }
  /// The most rows of the next pass. Of a text that is still being read, a pass may have fewer.
  int rows_next() const noexcept;
  /// Whether the next pass is a chunk of the text and not a round.
  bool reading() const noexcept { return read() < positions() - 1; }

  // One pass, by a scheduler, in this order. What a collaborator throws ends the pass: it becomes error(), and the
  // sequence is as it was before the pass. `seconds` is the time that the step before took.

  /// Begins a pass of at most `rows_max` rows: at least 1 while reading, else rows_next(). Returns false when the
  /// sequence has finished.
  bool prepare(int rows_max, SequenceScratch& scratch);
  /// Returns what the draft is to propose; nullopt: nothing.
  std::optional<ProposeJob> wanted();
  /// Takes the proposal, if one was wanted, and returns the rows for the target; nullopt: the pass has ended.
  std::optional<Segment> plan(const ProposeJob* proposed, double seconds);
  /// Applies the rule to the target's rows and returns what the draft is to observe; nullopt: the pass has ended.
  std::optional<ObserveJob> absorb(const SegmentOutput& output, double seconds, SequenceScratch& scratch);
  /// Keeps the accepted rows, records the round and calls back.
  void commit(const ObserveJob& observed, double seconds, SequenceScratch& scratch);
  /// Ends the pass with this error.
  void fail(std::exception_ptr error) noexcept;

 private:
  void make_room();
  void begin_round(SequenceScratch& scratch);
  void prune(Proposal& proposal);
  void jump_ahead(Proposal& proposal);
  void judge(const SegmentOutput& output, SequenceScratch& scratch);
  bool ends_with(std::span<const Token> more);
  void emit();
  void redecode(SequenceScratch& scratch);
  void record_prompt(const SegmentOutput& output);
  void record();
  void call_back(SequenceScratch& scratch);
  void finish_if_due();
  void note_end();
  PrefixCache::Parts parts() { return parts_in_prefix_cache(*cache_, with_.draft, with_.draft_name); }
  int tokens_left() const noexcept;
  /// Rows of the prompt whose log-probabilities are asked for and not recorded yet.
  int prompt_rows_left() const noexcept;
  int logits_from() const noexcept;
  /// The tokens of the text that were read.
  int read() const noexcept { return cache_->length() + dropped_; }
  bool digests() const noexcept { return recording_ == Recording::digests; }
  /// Adds to the statistic of the present pass.
  void add_seconds(double Statistics::*of_rounds, double seconds) noexcept;
  void time_draft(double DraftTimes::*spent, double seconds) noexcept;

  Collaborators with_;
  Recording recording_;
  RoundCallback callback_;
  const std::atomic<bool>* cancelled_ = nullptr;
  int pending_rows_;  // most rows of a round
  int draft_limit_ = std::numeric_limits<int>::max();
  DraftLengths::Text shown_by_draft_;
  std::unique_ptr<Cache> cache_;
  int dropped_ = 0;          // positions that context shifts dropped from the cache
  int draft_reach_ = 0;      // draft_reach of the request
  std::vector<Token> text_;  // prompt and output; the last is the anchor
  std::unique_ptr<ConstraintReader> constraint_;
  std::optional<Feedback> feedback_;       // after text_; empty: nothing is fed back
  std::optional<Feedback> next_feedback_;  // after the round that is pending
  Trace trace_;
  Next next_ = Next::go_on;  // what the stop condition or the callback said last
  std::exception_ptr error_;
  bool noted_ = false;  // note_end has done its work since the last pass

  // The pass in progress.
  bool is_round_ = false;
  Round round_;
  std::optional<ProposalBuilder> builder_;
  std::optional<Transaction> transaction_;
  std::vector<Token> tokens_;     // rows of the segment
  std::vector<int> depths_;       // of a tree
  std::vector<int> kept_rows_;    // rows of the segment that are kept
  std::vector<Token> committed_;  // their tokens
  std::vector<float> features_;   // their features, when they are not the first rows
};

/// Returns a message that explains why the model cannot serve the request, with the numbers; empty when it can.
std::string request_error(const Request& request, const Model& target);
/// Returns the most positions of this text that the draft serves: its reach, or those before a context shift that what
/// it keeps cannot follow.
int draft_reach(const Request& request, Draft& draft);

}  // namespace draftproof
