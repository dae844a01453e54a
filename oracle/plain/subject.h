// SPDX-License-Identifier: MIT
// What the oracle examines: something that decodes. The oracle knows what is asked (Request), how it may be executed
// (Variation) and what comes out (Trace). It never sees a draft, a kind of cache, a kernel table or the decode loop.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/rule.h"
#include "ref/decoding/request.h"
#include "ref/decoding/trace.h"
#include "ref/models/model.h"

namespace draftproof {

/// How a request is executed: with this draft (`draft_max` 0: its default) and rule, on this table and these threads.
struct Variation : Execution {
  std::string draft = "none";  // the subject's name for it
  const Rule* rule = &matching;
  std::string kernels;  // the subject's name for its numerics; "": its default
  int threads = 1;

  /// Returns whether the rule promises the same tokens as plain decoding, not only the same distribution.
  bool promises_tokens() const noexcept { return rule->judge == matching.judge; }

  std::string describe() const;
};

/// Is called after each round, once the round is recorded, with the run so far. Returning false ends the run there, as
/// cancelled. It may run other requests of the same variation. May be empty.
using OnRound = std::function<bool(const Trace&)>;

/// A request that is decoded together with others, and when it comes and goes.
struct Companion {
  Request request;
  Variation variation;
  RandomSource* random = nullptr;
  Timetable timetable = {};
};

struct JointPlan {
  int rows_per_pass = 256;
  bool prefix_cache = false;  // requests reuse what earlier ones have read
};

struct JointRun {
  std::vector<Trace> traces;        // of each companion
  std::vector<std::string> errors;  // of each companion; empty when it has none
  long passes = 0;                  // forward passes of the target
  long shared = 0;                  // ... with rows of more than one request
};

class Subject {
 public:
  virtual ~Subject() = default;

  Trace run(const Request& request, const Variation& variation, RandomSource& random) {
    return run_with_callback(request, variation, random, {});
  }

  /// Runs the request and records digests. Every random draw comes from `random`.
  virtual Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                                  const OnRound& on_round) = 0;

  /// Runs requests together, in forward passes that they share. All variations have one kernel table, number of threads
  /// and verification. Nothing: the subject decodes one request at a time.
  virtual std::optional<JointRun> run_together(std::span<const Companion>, const JointPlan&) { return {}; }

  /// Returns the target alone, with the numerics of that variation; valid until the next call.
  virtual Model& target(const Variation& variation) = 0;

  /// Returns the numerics class: variations of one class promise equal bits.
  virtual std::string numerics(const Variation& variation) = 0;
};

}  // namespace draftproof
