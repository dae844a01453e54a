// SPDX-License-Identifier: MIT
// What may be granted to an engine of other numerics, measured on traces in which the fault that is looked for cannot
// be. A control is a trace of the same engine without speculation. It is compared with the target, token by token:
//
// Greedy tokens. An engine errs on the difference of two logits, and emits another token than the target's best where
// its error exceeds their gap. Let the error be logistic with the scale s: the second token, a gap g below, is then
// emitted with probability 1 / (1 + exp(g / s)). Tokens that are not the best, with their gap, and those that are, with
// the gap to the second, give the likelihood of every s. The largest s whose likelihood is at least 1/1000 of the
// largest one is the upper bound. The tie is the gap at which another token is emitted with probability 1e-6, seven
// standard deviations away.
//
// Sampled tokens. The slack is bet against, as in a check, at each of a few sizes (sizes()). The smallest at which the
// bets stay quiet (an e-value below 100) is what the control shows; three times as much is granted. Where rows or
// log-probabilities are stated it is at least twice the furthest of them.
//
// Without a control, rows and log-probabilities in the trace itself give a slack: four times what nine in ten lie
// within. More than 0.1 is granted in no case, so a fault of the rows that is larger stays one.
//
//     const Control control("plain.jsonl", target);
//     target.slack = control.slack().granted;
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "oracle/spectrace/trace_target.h"

namespace draftproof::spectrace {

struct Grant {
  double granted = 0;
  std::string basis;     // what it rests on, for people
  long from_tokens = 0;  // of a slack: sampled tokens that it rests on, where no row and no log-probability shows it
  double scale = 0;      // of a tie: of the errors of logit differences
};

class Control {
 public:
  /// Reads the whole trace. `target`: with a vocabulary and computing_anyhow; its slack and tie are not used. Throws
  /// InvalidTrace where it is no trace, Error where the vocabulary is not the target's or where draft tokens were
  /// accepted.
  Control(const std::string& file, const TraceTarget& target);

  /// Returns what to grant. Throws Error, a sentence that says what to give, where the control shows too little or more
  /// than numerics explain.
  Grant tie() const;
  Grant slack() const;

  /// Returns the slack that rows and log-probabilities of a trace show, which may itself be faulty. Throws Error where
  /// there are fewer than 100 of them, or where they show too much.
  static Grant slack_shown_by(const std::string& file, const TraceTarget& target);

 private:
  struct GreedyToken {
    double gap = 0;  // below the best token or, of the best, to the second
    bool best = true;
    long line = 0;
    std::int64_t position = 0;
  };
  struct Sampled;  // of one size of slack
  struct Reading;
  Control(const std::string& file, const TraceTarget& target, bool of_itself);
  void read(const TraceTarget& target, bool of_itself, std::size_t first, std::size_t last);

  std::string file_;
  std::vector<GreedyToken> greedy_;
  std::vector<double> e_values_;  // by size of slack; infinite where it was not needed
  long sampled_ = 0;              // tokens
  std::vector<double> rows_;      // the smallest slack that allows each stated row
  std::vector<double> logprobs_;  // how far each stated log-probability is apart, in probability
  std::string left_out_;          // why some sequences are not compared; empty: all are
};

}  // namespace draftproof::spectrace
