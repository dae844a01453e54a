// SPDX-License-Identifier: MIT
// A decoder over hash models with some of its parts taken out of the zoo.
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

/// Besides these scripted:SCRIPT. dialect: a model that disagrees with the target on some rows. moody: draft tokens as many
/// tokens as it feels like, often none.
inline constexpr std::string_view draft_names[] = {"none", "perturbed", "always-reject", "perfect", "variable-length"};

class ZooSubject final : public Subject {
 public:
  ZooSubject(const HashShape& shape, const Parts& parts);

  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                    const OnRound& on_round) override;
  Model& target(const Variation& variation) override;
  std::string numerics(const Variation&) override { return "hash"; }

 private:
  std::unique_ptr<Draft> new_draft(const std::string& name, int capacity, int draft_max);

  Parts parts_;
  std::unique_ptr<Model> sound_;
  std::unique_ptr<Model> dialect_;
  std::map<int, std::unique_ptr<Model>> targets_;  // by threads
  std::optional<Request> first_;                   // of all that were asked
};

/// Whether a decoder of these parts can be asked to run so: a wrong rule of trees may ask for rows that are not on its
/// way, which row by row there are not; scripts are for parts that know trees.
bool can_run(const Parts& parts, const Variation& variation, int vocabulary);

bool same_name(const Rule* rule, const Rule& other);

}  // namespace draftproof::zoo
