// SPDX-License-Identifier: MIT
// The joint law of a whole output, exactly: every random answer is enumerated by key, for the subject and for plain
// decoding, and the two laws are compared as rational numbers. No samples, no false alarms, no tolerance.
// Small vocabularies and few tokens only; the subject's code is the production loop, unchanged.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "oracle/check.h"
#include "oracle/enumerate.h"
#include "oracle/subject.h"

namespace draftproof {

using Law = std::map<std::vector<Token>, Rational>;

struct LawQuestion {
  Request request;
  Variation variation;
};

struct LawAnswer {
  Rational distance;       // total variation between the subject's law and plain decoding's
  std::vector<Token> worst;  // the text whose probabilities differ most
  long paths = 0;          // of the subject
  long texts = 0;
  long accepted = 0;       // guesses, over all paths
  long refused = 0;
  long stopped = 0;        // paths that ended at a stop token
  long cut = 0;            // paths that ended by length
};

LawAnswer compare_laws(Subject& subject, const LawQuestion& question);

/// All questions; fails on any distance above zero, vacuous unless acceptance, refusal, stop and cut all occurred and
/// every draft had guesses judged in every way of verification.
Finding check_distribution_exact(Subject& subject, std::span<const LawQuestion> questions);

}  // namespace draftproof
