// SPDX-License-Identifier: MIT
// The target that a trace is held to, and how far its sequences may lie from it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "oracle/spectrace/nearby_distribution.h"
#include "oracle/twin/twin.h"
#include "ref/acceptance/constraint.h"
#include "ref/models/model.h"

namespace draftproof::spectrace {

/// Another model that an engine may run in place of the target: tokens are bet on with it.
struct Suspect {
  std::string name;
  std::shared_ptr<Model> model;  // with the target's vocabulary
};

/// How to compute rows of the target; no target when the vocabulary is 0.
struct TraceTarget {
  int vocabulary = 0;
  /// Returns the target in the given numerics class (a class of equal bits); nullptr where that class is not available
  /// here. Then the p of such a sequence are not held to the target's bits.
  std::function<std::shared_ptr<Model>(const std::string& numerics)> computing_in;
  /// How far, in total variation, the distribution of such a sequence may lie from the target's own at every position.
  /// With slack its tokens are bet on, with a target of any numerics class.
  double slack = 0;
  /// How far, in logits, a greedy token of such a sequence may lie below the target's best token; it may also lie
  /// within 2 slack of it in probability at temperature 1. With neither, it may lie as far below as some numerics
  /// explain, and what lies below at all is not proved.
  double tie = 0;
  /// Returns the target that sequences of other numerics are compared with.
  std::function<std::shared_ptr<Model>()> computing_anyhow = {};
  /// Compiles a grammar for the target's tokens. Throws Error where it cannot.
  std::function<std::shared_ptr<const Constraint>(const std::string& gbnf, const std::vector<Token>& stops)>
      constraint = {};
  /// Returns "sha256:..." of the target's files; called where a trace names its weights so. Empty: not known.
  std::function<std::string()> weights = {};
  /// Is told the number of each line before it is replayed; what it throws ends the replay. May be empty.
  std::function<void(long line)> progress = {};
  std::string reference = {};  // numerics class of computing_anyhow
  /// Returns the target's float64 twin. Throws Error, one sentence, where there is none or it would be too large.
  /// Empty: there is none.
  std::function<std::shared_ptr<const Twin>()> twin = {};
  std::string slack_basis = {};  // what the slack and the tie rest on where they were measured (control.h); else empty
  std::string tie_basis = {};
  long slack_from_tokens = 0;  // on this many sampled tokens of a control and no row: then rows are no findings
  double tie_scale = 0;        // of the errors of logit differences; with it near ties are bet on
  bool exact = false;  // sequences of other numerics are compared with the twin's rows; else with computing_anyhow's
  std::vector<Suspect> suspects = {};
  const KnownOrder* assumed = nullptr;  // of sequences of other numerics that state no order of samplers; null: ours
};

}  // namespace draftproof::spectrace
