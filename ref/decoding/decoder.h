// SPDX-License-Identifier: MIT
// The decoding loop. Each round proposes draft tokens, opens a transaction, runs the verification pass, reads
// distributions, applies the acceptance rule, stops at a stop token, keeps the accepted rows, and records the round.
// Plain autoregressive decoding is this loop with the empty draft.
//
// After every exit the target's cache holds prompt + output - 1 positions: the anchor, the last token of the text, is
// in no cache. The draft has observed exactly the same positions. (When cancelled during prefill, both hold the part of
// the prompt that was read.) A round is kept and recorded completely or not at all, and recorded before the callback
// sees it. So an interruption at any point, such as an exception of the target, the draft or the callback, leaves
// cache, draft and output consistent, and run() can continue from there.
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

/// What is recorded of every round. counts: the tokens and statistics only. digests: also fingerprints of every row and
/// cache, and the q of every draft token, for the oracle.
enum class Recording { counts, digests };

/// Called after every round, once it is recorded as the last of the trace's rounds.
struct RoundCallback {
  std::function<void(const Trace&)> on_round;
  bool rows = false;  // during the call the round has its rows, their digests and the q of every draft token
};

class Decoder {
 public:
  /// All references outlive the decoder. request_error(request, target) must be empty.
  Decoder(Model& target, Draft& draft, const Rule& rule, RandomSource& random, Request request, Recording recording);

  /// Decodes to the end. Checks `cancelled` between prefill chunks and between rounds. After a cancellation, another
  /// call continues.
  void run(const RoundCallback& watch = {}, const std::atomic<bool>* cancelled = nullptr);

  const Trace& trace() const& noexcept { return trace_; }
  Trace trace() && { return std::move(trace_); }
  const Cache& cache() const noexcept { return *cache_; }

 private:
  bool read_prompt(const std::atomic<bool>* cancelled);
  void step(bool rows_wanted);
  void propose(Round& round);
  void record(Round round);
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
  Distribution row_;  // the target distribution read last
  int pending_rows_ = 0;
};

/// Returns a message that explains why the model cannot serve the request, with the numbers; empty when it can.
std::string request_error(const Request& request, const Model& target);

}  // namespace draftproof
