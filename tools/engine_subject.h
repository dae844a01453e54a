// SPDX-License-Identifier: MIT
// The production engine as the oracle sees it.
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
  /// Runs end early once `cancelled` is set. `like`: how to lay weights out, but for the table. `rows`: who looks at a
  /// round finds its rows.
  EngineSubject(std::string target, LoadOptions like, const std::atomic<bool>* cancelled,
                bool rows = false)
      : target_(std::move(target)), like_(std::move(like)), cancelled_(cancelled), rows_(rows) {}

  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                    const OnRound& on_round) override;
  Model& target(const Variation& variation) override { return engine(variation).target(); }
  std::string numerics(const Variation& variation) override;

  /// So many runs will be made next and all be kept: as soon as one of them shows that there is no memory for the rest,
  /// it throws Error. `kept` is called after each.
  void will_keep(std::size_t runs, std::function<void()> kept) {
    to_keep_ = runs;
    kept_ = std::move(kept);
  }

  /// Loads the weights anew when they are next needed.
  void forget() { engine_.reset(); }

  /// The engine with the variation's table and threads. One table's weights are in memory at a time.
  Engine& engine(const Variation& variation);

 private:
  std::string target_;
  LoadOptions like_;
  const std::atomic<bool>* cancelled_;
  bool rows_;
  std::size_t to_keep_ = 0;
  std::function<void()> kept_;
  std::string loaded_;  // name of the table in engine_
  std::map<std::string, std::string> numerics_;  // by name of table
  std::unique_ptr<Engine> engine_;
};

/// The request as the variation wants it run.
Request varied(const Request& request, const Variation& variation);

}  // namespace draftproof
