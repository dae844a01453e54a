// SPDX-License-Identifier: MIT
// The joint law of a whole output, exactly: every random answer is enumerated by key, for the subject and for plain
// decoding, and the two laws are compared as rational numbers. No samples, no false alarms, no tolerance.
// Small vocabularies and few tokens only; the subject's code is the production loop, unchanged. Guesses
// are chains and trees.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "oracle/check.h"
#include "oracle/coverage.h"
#include "oracle/enumerate.h"
#include "oracle/subject.h"

namespace draftproof {

using Law = std::map<std::vector<Token>, Rational>;

struct LawQuestion {
  Request request;
  Variation variation;
};

struct LawAnswer {
  Rational distance;         // total variation between the subject's law and plain decoding's
  std::vector<Token> worst;  // the text whose probabilities differ most
  long paths = 0;            // of the subject
  long texts = 0;
  Coverage met;              // over all paths
  bool trees = false;        // some were guessed
};

LawAnswer compare_laws(Subject& subject, const LawQuestion& question);

/// distribution_exact over as many questions as one likes, each of any subject. Fails on any distance above zero.
/// Vacuous unless every kind of event that the rules asked about can meet was met, and every kind of draft (what stands
/// before a colon in its name) had guesses judged in every way of verification it was asked about.
class ExactLaws {
 public:
  /// After a failure nothing is asked any more: a wrong decoder may take any number of paths.
  void ask(Subject& subject, const LawQuestion& question) {
    if (largest_ == 0) add(question, compare_laws(subject, question));
  }
  void add(const LawQuestion& question, const LawAnswer& answer);

  Finding finding() &&;

 private:
  Examination examination_{"distribution_exact"};
  long questions_ = 0;
  long paths_ = 0;
  Rational largest_ = 0;
  Coverage met_;
  Possible possible_;                   // with one of the questions
  std::map<std::string, long> judged_;  // guesses, by draft and verification
};

}  // namespace draftproof
