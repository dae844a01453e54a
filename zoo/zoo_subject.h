// SPDX-License-Identifier: MIT
// A decoder over hash models, with some of its parts replaced by parts of the zoo. Without replacements it is the
// production loop, over models small enough for every random draw to be enumerated.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "oracle/plain/subject.h"
#include "ref/models/hash.h"
#include "zoo/zoo.h"

namespace draftproof::zoo {

/// The drafts besides scripted:SCRIPT. perturbed: a model that disagrees with the target on some rows. variable-length:
/// proposes a varying number of draft tokens, often none.
inline constexpr std::string_view draft_names[] = {"none", "perturbed", "always-reject", "perfect", "variable-length"};

class ZooSubject final : public Subject {
 public:
  /// `rows`: the production loop keeps each round's distributions for the callback.
  explicit ZooSubject(const HashShape& shape, const Parts& parts = {}, bool rows = false);

  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                          const OnRound& on_round) override;
  std::optional<JointRun> run_together(std::span<const Companion> companions, const JointPlan& plan) override;
  Model& target(const Variation& variation) override;
  std::string numerics(const Variation&) override { return "hash"; }

 private:
  std::unique_ptr<Draft> new_draft(const std::string& name, int capacity, int draft_max);
  Request as_asked(const Request& request);

  Parts parts_;
  std::unique_ptr<Model> sound_;
  std::unique_ptr<Model> perturbed_;
  bool rows_;
  std::map<int, std::unique_ptr<Model>> targets_;  // by threads
  std::optional<Request> first_;                   // the first request
};

/// Returns whether a decoder of these parts can be run in this variation. Scripts are for parts that support trees.
bool can_run(const Parts& parts, const Variation& variation, int vocabulary);

bool same_name(const Rule* rule, const Rule& other);

}  // namespace draftproof::zoo
