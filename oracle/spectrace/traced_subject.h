// SPDX-License-Identifier: MIT
// A subject that writes the runs of another subject to a trace while they happen.
#pragma once

#include "oracle/spectrace/writer.h"
#include "oracle/plain/subject.h"

namespace draftproof::spectrace {

class TracedSubject final : public Subject {
 public:
  /// Both outlive it. Rounds of `subject` must be recorded with their rows; kernels are named as `subject` names them.
  TracedSubject(Subject& subject, Writer& writer) : subject_(subject), writer_(&writer) {}

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
};

}  // namespace draftproof::spectrace
