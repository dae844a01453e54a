// SPDX-License-Identifier: MIT
// The joint law of a whole output, exactly: every random answer is enumerated by key, for the subject and for plain
// decoding, and the two laws are compared as rational numbers. No samples, no false alarms, no tolerance.
// Small vocabularies and few tokens only; the subject's code is the production loop, unchanged. Draft tokens
// are chains and trees.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "oracle/checks/check.h"
#include "oracle/exact/coverage.h"
#include "oracle/exact/enumerate.h"
#include "oracle/plain/subject.h"

namespace draftproof {

using OutcomeDistribution = std::map<std::vector<Token>, Rational>;

struct ExactQuestion {
  Request request;
  Variation variation;
};

struct ExactAnswer {
  Rational distance;         // total variation between the subject's law and plain decoding's
  std::vector<Token> worst;  // the text whose probabilities differ most
  long paths = 0;            // of the subject
  long texts = 0;
  Coverage met;              // over all paths
  bool trees = false;        // some were drafted
};

ExactAnswer compare_distributions(Subject& subject, const ExactQuestion& question);

/// distribution_exact over as many questions as one likes, each of any subject. Fails on any distance above zero.
/// Vacuous unless every kind of event that the rules asked about can meet was met, and every kind of draft (what stands
/// before a colon in its name) had draft tokens judged in every way of verification it was asked about.
class ExactDistributionCheck {
 public:
  /// After a failure nothing is asked any more: a wrong decoder may take any number of paths.
  void ask(Subject& subject, const ExactQuestion& question) {
    if (largest_ == 0) add(question, compare_distributions(subject, question));
  }
  void add(const ExactQuestion& question, const ExactAnswer& answer);

  Finding finding() &&;

 private:
  Examination examination_{"distribution_exact"};
  long questions_ = 0;
  long paths_ = 0;
  Rational largest_ = 0;
  Coverage met_;
  Possible possible_;                   // with one of the questions
  std::map<std::string, long> judged_;  // draft tokens, by draft and verification
};

}  // namespace draftproof
