// SPDX-License-Identifier: MIT
// What is under examination: something that decodes. The oracle knows the question (Request), the ways it may be run
// (Variation) and the answer (Trace); it never sees a draft, a cache kind, a kernel table or the loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ref/acceptance/random_source.h"
#include "ref/acceptance/rule.h"
#include "ref/decoding/trace.h"
#include "ref/models/model.h"

namespace draftproof {

struct Variation {
  std::string draft = "none";  // as the subject names its drafts
  int draft_max = 0;           // 0: as suits the draft
  const Rule* rule = &matching;
  std::string kernels;         // as the subject names its numerics; "" its default
  int threads = 1;
  int prefill_chunk = 0;         // most rows of the prompt read at once; 0: as suits the subject
  Verification verification = Verification::batched;

  /// The rule promises plain decoding's very tokens, not only their law.
  bool promises_tokens() const noexcept { return rule->judge == matching.judge; }

  std::string describe() const;
};

/// Called after every round, when it is recorded, with the run so far; false ends the run there, as cancelled. May run
/// other requests of the same variation. Empty: nobody watches.
using OnRound = std::function<bool(const Trace&)>;

class Subject {
 public:
  virtual ~Subject() = default;

  Trace run(const Request& request, const Variation& variation, RandomSource& random) {
    return run_with_callback(request, variation, random, {});
  }

  /// Runs the request and records digests. Every random answer comes from `chance`.
  virtual Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                            const OnRound& on_round) = 0;

  /// The target by itself, computing as that variation computes; valid until the next call.
  virtual Model& target(const Variation& variation) = 0;

  /// Variations of one class promise equal bits.
  virtual std::string numerics(const Variation& variation) = 0;
};

}  // namespace draftproof
