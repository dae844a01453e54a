// SPDX-License-Identifier: MIT
// A draft proposes tokens for one sequence. It sees the committed text and features, and so how much of its proposals
// the text took, and between passes the target's cache, which the committed text has made; it never sees a pending row,
// the target's probabilities or a random number that decides.
//
// Under `matching`, and wherever every draft token is deterministic, the output is the target's whatever the draft
// does. Under `rejection`, the output has the target's distribution whatever q and the length of the proposal depend
// on, as long as the draft learns no random number but through its own samples: it may remember samples and
// confidences of all rounds. For every random number serves one decision (a position is accepted, rejected and drawn
// for once, and a draft's draw has a new key in every round), and what a decision depends on was known before its
// number.
#pragma once

#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "ref/acceptance/proposal.h"
#include "ref/base/digest.h"
#include "ref/base/token.h"
#include "ref/caches/context_shift.h"
#include "ref/drafts/costs.h"
#include "ref/models/model.h"

namespace draftproof {

/// How far a draft is in its text, by its own state: the length of its cache or text and the place of a row, never a
/// count of what it was told. A right draft holds, read or unread, what the target's cache holds, and places the anchor
/// behind it. Otherwise its proposals are worse than they could be, and the output is right all the same.
struct DraftPositions {
  int held = 0;     // positions in its cache, or tokens in its text
  int unread = 0;   // committed positions behind them that it reads once it is asked (chain.h)
  int anchor = -1;  // the position of the anchor's row in its last proposal; -1: it has made none
  int passed = 0;   // of the held ones, those that its next row does not see, because a window has passed them

  bool operator==(const DraftPositions&) const = default;
};

/// How often a draft was asked and has failed, and seconds that it has taken. What several drafts compute in one pass
/// counts for each of them. A chain observes late (chain.h): when it is asked, or when its state is looked at, which is
/// no part of a round.
struct DraftTimes {
  int asked = 0;      // for a proposal
  int silent = 0;     // of these, how often it proposed nothing
  int failed = 0;     // how often proposing or observing failed, which ends the text
  double begin = 0;   // observing the prompt
  double draft = 0;   // proposing
  double accept = 0;  // observing what the rounds committed

  /// Counts a proposal of so many draft tokens.
  void count(int drafted) noexcept {
    ++asked;
    if (drafted == 0) ++silent;
  }
};

class Draft {
 public:
  virtual ~Draft() = default;

  /// Returns the most draft tokens that it can propose in one round.
  virtual int draft_max() const = 0;

  /// Returns what it computes for a proposal.
  virtual ProposalWork work() const { return ProposalWork::passes; }

  /// Returns the target layers whose output it needs for every committed position.
  virtual std::span<const int> taps() const { return {}; }

  /// Most prompt tokens passed to one observe() call. After a round it may get more, up to 1 + draft_max().
  static constexpr int max_chunk = prefill_chunk;

  /// Receives the committed tokens, each once and in order, with their features [committed.size()][taps * hidden].
  /// `committed` has between 1 and max(max_chunk, 1 + draft_max()) tokens. The anchor, the last committed token of the
  /// text, is passed only after the next round. On an exception none of the tokens counts as observed.
  virtual void observe(std::span<const Token> committed, std::span<const float> features) = 0;

  /// Says that the text before the anchor has been observed, as far as it was read: rounds follow. It may be said
  /// before every round.
  virtual void begin_rounds() {}

  /// Adds at most `limit` >= 1 draft tokens after `anchor` to `builder`. Does not change what was observed.
  virtual void propose(Token anchor, int limit, ProposalBuilder& builder) = 0;

  /// Forgets everything observed and gives back its memory; the text will be observed again from its beginning.
  virtual void forget() = 0;

  /// Receives the target's cache of the text before the first proposal, and again when another takes its place. During
  /// propose() it is settled and holds the positions that were observed. Then it may be read, and may be used in
  /// transactions that are rolled back; at other times only its length may be asked for.
  virtual void use_target_cache(Cache&) {}

  /// Returns the cache that is all it keeps of the text, so that the prefix cache can keep and restore it and a context
  /// shift can drop positions of it; nullptr when there is none. A draft without one observes texts of any length.
  virtual Cache* context() { return nullptr; }

  /// Drops the positions of the text that the target's cache, which is as full, is about to drop.
  virtual void make_room(const ContextShift& shift) {
    if (Cache* const cache = context()) shift.make_room(*cache);
  }

  /// Whether it goes on after a prefix was restored with nothing but the tokens (skip) and the target's cache. A prefix
  /// cache then keeps nothing of it, and serves texts with it.
  virtual bool needs_no_snapshot() const { return false; }

  /// Receives the first tokens of the text, which were restored from a prefix cache: context() holds what it keeps of
  /// them.
  virtual void skip(std::span<const Token>) {}

  /// Returns the most positions of a text that what it keeps can hold. Beyond them it keeps nothing and proposes
  /// nothing (short_context.h). Of drafts that are asked in order, that of the one which ends first.
  virtual int reach() const { return std::numeric_limits<int>::max(); }

  /// Returns a digest of everything observed: equal after equal texts, whatever was proposed in between.
  virtual Fingerprint digest() const { return {}; }

  /// Returns its positions, of drafts that are asked in order those of each (Proposal::asked); nothing when it keeps
  /// nothing of the text.
  virtual std::vector<DraftPositions> positions() const { return {}; }

  /// Of drafts that are asked in order returns the times of each; nothing of a draft alone, which its caller can time.
  virtual std::span<const DraftTimes> times() const { return {}; }

  /// Returns the costs that a tuner expected which chooses the lengths of its proposals; nullptr without one.
  virtual const DraftCosts* costs() const { return nullptr; }

  /// Whether it is to be told what rounds took: took() before it observes what the round committed.
  virtual bool wants_times() const { return false; }
  virtual void took(const RoundSeconds&) {}
};

/// What one of several drafts is asked for in one pass. The result of a job is its own: `error` is what its draft
/// threw, and leaves the other jobs as they are.
struct ProposeJob {
  Draft* draft = nullptr;
  Token anchor = 0;
  int limit = 0;
  ProposalBuilder* builder = nullptr;
  std::exception_ptr error = nullptr;
  /// What drafts took to observe first what was committed before the last round, as this one did. A chain that is asked
  /// every round has no such seconds.
  double late_seconds = 0;
};
struct ObserveJob {
  Draft* draft = nullptr;
  std::span<const Token> committed;
  std::span<const float> features;
  std::exception_ptr error = nullptr;
};

/// The drafts of several sequences, with the weights that they share. A drafter whose drafts are a network computes all
/// jobs in one forward pass; by default they are done one after the other. Every draft proposes and observes as it
/// would alone, to the last bit.
class Drafter {
 public:
  virtual ~Drafter() = default;

  /// Creates the draft of one sequence of at most `capacity` positions, which proposes at most `draft_max` draft tokens
  /// per round (0: the default of the kind). Requires capacity <= reach(), but for a drafter of
  /// for_texts_of_any_length (short_context.h).
  virtual std::unique_ptr<Draft> open(int capacity, int draft_max) = 0;

  /// Returns the most positions of a text that its drafts can hold; the largest number where they keep no cache of it.
  virtual int reach() const { return std::numeric_limits<int>::max(); }

  /// Do what Draft::propose and Draft::observe do, for drafts that this drafter opened. What they throw is the failure
  /// of every job that has no error of its own.
  virtual void propose(std::span<ProposeJob> jobs);
  virtual void observe(std::span<ObserveJob> jobs);
};

/// Does one job, and keeps what it throws as its error.
void propose_alone(ProposeJob& job);
void observe_alone(ObserveJob& job);

}  // namespace draftproof
