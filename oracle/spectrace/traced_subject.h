// SPDX-License-Identifier: MIT
// A subject that writes the runs of another subject to a trace while they happen.
#pragma once

#include <string>
#include <utility>

#include "oracle/plain/subject.h"
#include "oracle/spectrace/writer.h"

namespace draftproof::spectrace {

class TracedSubject final : public Subject {
 public:
  /// Both outlive it. Rounds of `subject` must be recorded with their rows; kernels are named as `subject` names them.
  /// `grammar`: that of requests with a constraint, in GBNF.
  TracedSubject(Subject& subject, Writer& writer, std::string grammar = {})
      : subject_(subject), writer_(&writer), grammar_(std::move(grammar)) {}

  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                          const OnRound& on_round) override;
  /// Joint runs are not traced.
  std::optional<JointRun> run_together(std::span<const Companion> companions, const JointPlan& plan) override {
    return subject_.run_together(companions, plan);
  }
  Model& target(const Variation& variation) override { return subject_.target(variation); }
  std::string numerics(const Variation& variation) override { return subject_.numerics(variation); }

  /// Stops writing: later runs are not traced.
  void stop() noexcept { writer_ = nullptr; }

 private:
  Subject& subject_;
  Writer* writer_;
  std::string grammar_;
};

}  // namespace draftproof::spectrace
