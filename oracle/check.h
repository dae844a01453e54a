// SPDX-License-Identifier: MIT
// The oracle's words. A Trial is one question put to a subject in many variations; a Check looks at a trial and reports
// findings; findings are values, never exceptions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "oracle/ledger.h"
#include "oracle/plain.h"
#include "oracle/subject.h"

namespace draftproof {

struct Run {
  Variation variation;
  Trace trace;
  std::vector<Entry> ledger;
};

/// A request, the variations it was run in, and what plain decoding says. Plain rows are computed when first asked for
/// and kept, per numerics class and text.
class Trial {
 public:
  /// Runs every variation. `seed` feeds SeededChance in all of them and in plain decoding.
  Trial(Subject& subject, Request request, std::uint64_t seed, const std::vector<Variation>& variations);

  Subject& subject;
  const Request request;
  const std::uint64_t seed;
  std::vector<Run> runs;

  const PlainRun& plain_run(const Variation& variation);
  /// The row after `text`, as plain decoding computes it.
  const PlainRow& row_after(const Variation& variation, std::span<const Token> text);
  /// The cache's digest after reading `text` one token at a time and nothing else; index = tokens read.
  const std::vector<Fingerprint>& cache_along(const Variation& variation, std::span<const Token> text);

  /// The first run of every draft under every rule: what checks that run the subject again start from.
  std::vector<const Run*> one_per_draft() const;
  /// The variation's promise for this request is the very tokens, not only their law.
  bool promises_tokens(const Variation& variation) const noexcept {
    return request.sampling.greedy() || variation.promises_tokens();
  }

 private:
  std::map<std::string, PlainRun> plain_runs_;
  std::map<std::pair<std::string, std::vector<Token>>, PlainRow> rows_;
  std::map<std::pair<std::string, std::vector<Token>>, std::vector<Fingerprint>> caches_;
};

enum class Outcome { pass, fail, vacuous };
const char* name_of(Outcome outcome) noexcept;

/// What one check says of one trial: the first thing wrong, or how much was looked at.
struct Finding {
  std::string check;
  Outcome outcome = Outcome::pass;
  long examined = 0;     // things compared; a pass that compared nothing is vacuous
  std::string sentence;  // for a failure: where, what was expected, what was found
};

struct Check {
  const char* name;
  const char* proves;
  Finding (*examine)(Trial& trial);
};

/// Every check, one file each in oracle/checks; ends with a row of nulls.
const Check* all_checks() noexcept;

/// Used by checks: counts comparisons and keeps the first failure.
class Examination {
 public:
  explicit Examination(const char* check) { finding_.check = check; }
  /// True while nothing is wrong; `describe` is called only for the first failure.
  template <class Describe>
  bool expect(bool condition, Describe describe) {
    ++finding_.examined;
    if (!condition && finding_.outcome != Outcome::fail) {
      finding_.outcome = Outcome::fail;
      finding_.sentence = describe();
    }
    return condition;
  }
  /// `missing`, when not empty, says why a pass would prove nothing.
  Finding finding(const std::string& summary, const std::string& missing = "") &&;

 private:
  Finding finding_;
};

Finding check_tokens_equal(Trial& trial);
Finding check_logits_equal(Trial& trial);
Finding check_verdict_justified(Trial& trial);
Finding check_forgetting(Trial& trial);
Finding check_causality(Trial& trial);
Finding check_independence(Trial& trial);
Finding check_repeatable(Trial& trial);
Finding check_pieces(Trial& trial);
Finding check_together(Trial& trial);
Finding check_log_probabilities(Trial& trial);
Finding check_budget(Trial& trial);
Finding check_ledger(Trial& trial);

}  // namespace draftproof
