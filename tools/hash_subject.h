// SPDX-License-Identifier: MIT
// The production loop over hash models, small enough for every random answer to be enumerated. Drafts: none, dialect
// (a model that disagrees with the target on some rows), hostile, oracular, scripted:SCRIPT.
#pragma once

#include <memory>

#include "oracle/exact/exact_distribution.h"
#include "oracle/plain/subject.h"
#include "ref/decoding/decoder.h"
#include "ref/models/hash.h"

namespace draftproof {

class HashSubject final : public Subject {
 public:
  /// `rows`: who looks at a round finds its rows.
  explicit HashSubject(const HashShape& shape, bool rows = false);

  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                    const OnRound& on_round) override;
  Model& target(const Variation&) override { return *target_; }
  std::string numerics(const Variation&) override { return "hash"; }

 private:
  std::unique_ptr<Model> target_;
  std::unique_ptr<Model> dialect_;
  bool rows_;
};

/// distribution_exact for the production loop under one rule: the questions of oracle/exact/exact_cases.h, the first two
/// hundred of those by number.
Finding check_production_distribution(const Rule& rule);

}  // namespace draftproof
