// SPDX-License-Identifier: MIT
// The production engine behind the interface of the oracle.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "oracle/plain/subject.h"
#include "ref/decoding/engine.h"

namespace draftproof {

class EngineSubject final : public Subject {
 public:
  /// `files` outlive the subject. `like`: how to load the weights, except for the kernel table. Runs end early once
  /// `cancelled` is set. `rows`: keep the distributions of a round for callbacks.
  EngineSubject(ModelFiles& files, LoadOptions like, const std::atomic<bool>* cancelled, bool rows = false)
      : files_(files), like_(std::move(like)), cancelled_(cancelled), rows_(rows) {}

  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                          const OnRound& on_round) override;
  std::optional<JointRun> run_together(std::span<const Companion> companions, const JointPlan& plan) override;
  Model& target(const Variation& variation) override { return engine(variation).target(); }
  std::string numerics(const Variation& variation) override;

  /// Announces that the traces of the next `runs` runs will all be kept. A run throws Error when it shows that memory
  /// does not suffice for the remaining ones. `kept` is called after each run.
  void will_keep(std::size_t runs, std::function<void()> kept) {
    to_keep_ = runs;
    kept_ = std::move(kept);
  }

  /// Frees the weights; the next run loads them again.
  void unload() { engine_.reset(); }

  /// Returns the engine with the variation's kernel table and threads. Weights are in memory for one table at a time.
  Engine& engine(const Variation& variation);

 private:
  ModelFiles& files_;
  LoadOptions like_;
  const std::atomic<bool>* cancelled_;
  bool rows_;
  std::size_t to_keep_ = 0;
  std::function<void()> kept_;
  std::string loaded_;                           // name of the table in engine_
  std::map<std::string, std::string> numerics_;  // by name of table
  std::unique_ptr<Engine> engine_;
};

}  // namespace draftproof
