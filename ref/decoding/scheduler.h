// SPDX-License-Identifier: MIT
// Decodes many sequences together (continuous batching). Each step is one forward pass of the target, shared by chunks
// of prompts and verification passes of different sequences. Sequences join and leave between any two steps.
//
// S1  Every sequence gets the bits that it gets alone: what is computed for it depends on no other sequence, no order
//     of joining and no limit below.
// S2  A failure is one sequence's own: NaN logits, a draft or a callback that throws, a cancellation. Only what the
//     target's forward pass itself throws (no memory) is the failure of all sequences in the pass.
//
// Order: first come, first served. A sequence that took part in a pass goes to the end of the line, so one for which a
// pass had no room is the first in the next. When the caches would outgrow `cache_bytes`, the sequence that was
// admitted last is preempted: it gives back its caches, waits, and later reads its text again.
//
// One thread drives a scheduler. A callback of a sequence may add sequences.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "ref/decoding/draft_lengths.h"
#include "ref/decoding/sequence.h"

namespace draftproof {

struct SchedulerLimits {
  int rows_per_pass = 256;  // most rows of one forward pass; a round with more has a pass for itself
  int reading_rows = 256;   // most of them that read texts, where the pass also has rounds, which wait for them
  int running_max = std::numeric_limits<int>::max();                      // most sequences that have caches
  std::uint64_t cache_bytes = std::numeric_limits<std::uint64_t>::max();  // of all sequences together
};

/// What the caches of one sequence take, those of its draft included.
struct CacheCost {
  std::uint64_t fixed = 0;
  std::uint64_t per_position = 0;
  std::uint64_t of(int positions) const noexcept {
    return fixed + per_position * static_cast<std::uint64_t>(positions);
  }
};

/// What a scheduler did so far.
struct SchedulerCounts {
  long passes = 0;  // forward passes of the target
  long shared = 0;  // ... with rows of more than one sequence
  long rows = 0;    // rows of all passes
  long reused = 0;  // positions that came from the prefix cache
  long preemptions = 0;

  SchedulerCounts& operator+=(const SchedulerCounts& other) {
    passes += other.passes;
    shared += other.shared;
    rows += other.rows;
    reused += other.reused;
    preemptions += other.preemptions;
    return *this;
  }
};

class Scheduler {
 public:
  /// The target outlives the scheduler and is that of all its sequences. So does the prefix cache, if there is one:
  /// sequences take from it what they need not read, and give to it what they have read.
  /// `lengths`: limits the draft tokens of every round by how many sequences share a pass, under `matching` only;
  /// nullptr: drafts decide alone.
  explicit Scheduler(Model& target, const SchedulerLimits& limits = {}, PrefixCache* prefixes = nullptr,
                     DraftLengths* lengths = nullptr)
      : target_(target), limits_(limits), prefixes_(prefixes), lengths_(lengths) {}

  /// The sequence takes part as soon as there is room for it, until it finishes or fails; it outlives the scheduler or
  /// is removed. Throws Error, with the numbers, when its caches alone do not fit.
  void add(Sequence& sequence, const CacheCost& cost = {});
  /// Takes the sequence out, whatever it is doing. Not from a callback.
  void remove(Sequence& sequence);
  /// Takes the caches of a running sequence, which waits and resumes later; see above. Not from a callback.
  void preempt(Sequence& sequence);

  /// Runs one pass, or finds that every running sequence has finished. Returns false when no sequence is left.
  bool step();

  int running() const noexcept { return static_cast<int>(running_.size()); }
  int waiting() const noexcept { return static_cast<int>(waiting_.size()); }
  const SchedulerCounts& counts() const noexcept { return counts_; }

 private:
  struct Entry {
    Sequence* sequence;
    CacheCost cost;
    long admitted = 0;  // the order of admission
  };
  /// One sequence's part of the pass in progress.
  struct Part {
    Sequence* sequence = nullptr;
    std::optional<ProposeJob> propose = {};  // nothing is wanted of the draft without it
    ObserveJob observe = {};
    bool alive = true;     // the pass goes on for it
    bool reading = false;  // the pass is a chunk of its text
  };

  bool fits(const Entry& entry) const;
  std::uint64_t bytes_after_next_pass() const;
  void admit();
  void make_room();
  void preempt(std::deque<Entry>::iterator entry);
  int decoding() const;  // running sequences that have read their text
  void limit_drafts();
  void gather();
  void propose();
  void forward();
  void finish_parts();
  void drop_finished();

  Model& target_;
  SchedulerLimits limits_;
  PrefixCache* prefixes_;
  DraftLengths* lengths_;
  SchedulerCounts counts_;
  std::deque<Entry> running_;  // the next to be served first
  std::deque<Entry> waiting_;
  long admissions_ = 0;
  SequenceScratch scratch_;
  Outputs outputs_;
  std::vector<Part> parts_;
  DraftLengths::Proposals proposals_;  // of sequences whose draft tokens load limits
  double proposal_seconds_ = 0;
  double late_seconds_ = 0;  // of these, ProposeJob::late_seconds
  std::vector<Segment> segments_;
};

/// Decodes one sequence to its end, alone. Throws what ended one of its passes.
void decode_alone(Sequence& sequence, const CacheCost& cost = {}, PrefixCache* prefixes = nullptr);

}  // namespace draftproof
