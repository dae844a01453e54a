// SPDX-License-Identifier: MIT
// The one loop: draft token, open, verify, read, judge, stop, keep, tell. Plain decoding is the empty draft.
//
// At rest, on every exit, the target's cache holds prompt + output - 1 positions: the last token of the text, the
// anchor, is in no cache; the draft has observed exactly the same positions. (A run cancelled inside its prompt holds
// what it has read of it.) A round is kept and recorded whole or not at all, and recorded before any of it is handed
// out; so an interruption at any point, be it an exception of the target, the draft or who watches, leaves cache, draft
// and output in step, and the run may be gone on with.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/rule.h"
#include "ref/decoding/trace.h"
#include "ref/drafts/draft.h"
#include "ref/models/model.h"

namespace draftproof {

/// What is kept of every round. digests: every row and cache fingerprinted, and the q of every draft token, for the oracle.
enum class Recording { counts, digests };

/// Looks at a run after every round, when it is recorded: the last of its rounds is new.
struct RoundCallback {
  std::function<void(const Trace&)> on_round;
  bool rows = false;  // while it is looked at, the round has its rows, their digests and the q of every draft token
};

class Decoder {
 public:
  /// All references outlive the decoder. `request` fits the model, see misfit().
  Decoder(Model& target, Draft& draft, const Rule& rule, RandomSource& random, Request request, Recording recording);

  /// Runs to the end. `cancelled` is looked at between passes over the prompt and between rounds; a cancelled run may
  /// be gone on with by calling again.
  void run(const RoundCallback& watch = {}, const std::atomic<bool>* cancelled = nullptr);

  const Trace& trace() const& noexcept { return trace_; }
  Trace trace() && { return std::move(trace_); }
  const Cache& cache() const noexcept { return *cache_; }

 private:
  bool read_prompt(const std::atomic<bool>* cancelled);
  void step(bool rows_wanted);
  void drop_rows();
  int tokens_left() const;

  Model& target_;
  Draft& draft_;
  const Rule& rule_;
  RandomSource& random_;
  Recording recording_;
  std::unique_ptr<Cache> cache_;
  std::vector<Token> text_;  // prompt and output; the last is the anchor
  Trace trace_;
  Outputs outputs_;
  Sampler sampler_;
  Distribution row_;  // of the target, the last one read
  int pending_rows_ = 0;
};

/// One sentence saying why the request does not fit the model, with the numbers; empty when it does.
std::string request_error(const Request& request, const Model& target);

}  // namespace draftproof
