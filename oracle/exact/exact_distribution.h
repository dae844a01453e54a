// SPDX-License-Identifier: MIT
// The joint distribution of a whole output, exactly. Every random draw is enumerated by key, for the subject and for
// plain decoding, and the two distributions are compared as rational numbers: no samples, no false alarms, no
// tolerance. For small vocabularies and few tokens only. The subject's code is the production decode loop, unchanged.
// The proposals are chains and trees.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oracle/checks/check.h"
#include "oracle/exact/build_checks.h"
#include "oracle/exact/coverage.h"
#include "oracle/exact/enumerate.h"
#include "oracle/plain/subject.h"

namespace draftproof {

/// The exact probability of each text.
using TextDistribution = std::map<std::vector<Token>, Rational>;

struct ExactInput {
  Request request;
  Variation variation;
};

struct ExactResult {
  Rational distance;         // total variation between the subject's distribution and plain decoding's
  std::vector<Token> worst;  // the text whose probabilities differ most
  long paths = 0;            // of the subject
  long texts = 0;
  Coverage met;        // over all paths
  bool trees = false;  // some proposals were trees
};

ExactResult compare_distributions(Subject& subject, const ExactInput& input);

/// Two requests that are decoded together; the second joins after some passes.
struct ExactPair {
  ExactInput first;
  ExactInput second;
  int joins_after = 0;
};

/// Compares the joint distribution of both texts with that of decoding one after the other plainly. Nothing when the
/// subject decodes one request at a time. No events are counted; `shared`: passes with rows of both, over all paths.
std::optional<ExactResult> compare_distributions(Subject& subject, const ExactPair& pair, long& shared);

/// The check distribution_exact over any number of inputs, each to any subject. Fails on any distance above zero.
/// Vacuous unless every coverage event that is possible under the rules was met, and every kind of draft (the part of
/// its name before a colon) had draft tokens verified in each way of verification that was used with it.
class ExactDistributionCheck {
 public:
  /// Does nothing after a failure, because a wrong decoder may take any number of paths.
  void ask(Subject& subject, const ExactInput& input) {
    if (largest_ == 0) add(input, compare_distributions(subject, input));
  }
  void ask(Subject& subject, const ExactPair& pair);
  void add(const ExactInput& input, const ExactResult& answer);

  Finding finding() &&;

 private:
  void expect_equal(const Variation& variation, const ExactResult& answer);

  Examination examination_{distribution_exact};
  long inputs_ = 0;
  long paths_ = 0;
  long pairs_ = 0;
  long unshared_ = 0;  // pairs that never had a pass in common
  Rational largest_ = 0;
  Coverage met_;
  Possible possible_;                   // in some input
  std::map<std::string, long> judged_;  // draft tokens, by draft and verification
};

}  // namespace draftproof
