// SPDX-License-Identifier: MIT
// The framework of the checks. A Trial is one request, run on a subject in many variations. A Check examines a trial
// and returns a Finding; findings are values, never exceptions. The checks themselves are in oracle/checks/checks.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/checks/cost.h"
#include "oracle/checks/effort.h"
#include "oracle/checks/recorded_draws.h"
#include "oracle/plain/plain.h"
#include "oracle/plain/subject.h"

namespace draftproof {

struct Run {
  Variation variation;
  Trace trace;
  std::vector<RecordedDraw> draws;
};

/// A contradiction: what was expected and what was observed cannot both be right.
struct Failure {
  std::string run = {};        // the variation, described; in a trace: the sequence
  std::int64_t line = 0;       // of the trace file
  std::int64_t round = -1;     // -1: no single round; else of the run or the sequence
  std::int64_t position = -1;  // -1: no single position; else of the text, the prompt included
  std::string expected = {};   // by plain decoding
  std::string observed = {};
  std::vector<std::string> facts = {};  // the fewest from which it follows that both cannot be right
  std::string blames = {};              // parts that can be at fault
  std::string clears = {};              // parts that cannot
  std::string reproduce = {};           // a command line that shows it again; empty when none was requested
};

/// A request, its runs in several variations, and what plain decoding returns for it. Plain rows are computed when
/// first needed and kept, per numerics class and text: some are recomputed from the whole text (Effort::fresh_rows),
/// the others of a run continue a cache along its text, so that the number of passes is linear in its length.
class Trial {
 public:
  /// Runs every variation. `seed` feeds PhiloxSource in all of them and in plain decoding.
  Trial(Subject& subject, Request request, std::uint64_t seed, const std::vector<Variation>& variations,
        const Effort& effort = full_effort());

  Subject& subject;
  const Request request;
  const std::uint64_t seed;
  const Effort& effort;  // of the checks
  std::vector<Run> runs;

  const PlainRun& plain_run(const Variation& variation);
  /// Returns the row after `text`, as plain decoding computes it.
  const PlainRow& row_after(const Variation& variation, std::span<const Token> text);
  /// Returns the digests of a cache that reads `text` one token at a time and nothing else; index = tokens read.
  const std::vector<Fingerprint>& cache_along(const Variation& variation, std::span<const Token> text);

  /// Returns the first failure of the checks that compare each run with plain decoding only: tokens_equal,
  /// logits_equal, acceptance_correct, termination_and_counters.
  const std::optional<Failure>& standalone_failure();

  /// Returns how many positions the cache holds when `tokens` tokens of a text were read.
  int positions_after(int tokens) const noexcept {
    return tokens - (request.context_shift ? request.context_shift->dropped(tokens) : 0);
  }

  /// Returns the first run of each draft under each rule, Effort::drafts_again of them at most: the runs that checks
  /// start from when they run the subject again.
  std::vector<const Run*> one_per_draft() const;
  /// Returns whether the variation promises for this request the same tokens, not only the same distribution.
  bool promises_tokens(const Variation& variation) const noexcept {
    return request.sampling.greedy() || variation.promises_tokens();
  }

 private:
  /// Returns the longest text of a run of this numerics class that begins with `text`; else `text`.
  std::vector<Token> text_of_run(const std::string& numerics, std::span<const Token> text);

  std::map<std::string, PlainRun> plain_runs_;
  std::map<std::pair<std::string, std::vector<Token>>, PlainRow> rows_;
  std::map<std::pair<std::string, std::vector<Token>>, std::vector<Fingerprint>> caches_;
  std::optional<std::optional<Failure>> standalone_failure_;  // empty until it is asked for
};

/// What a check found. perf_regression: the text is right, but the draft is worse than it could be.
enum class Outcome { pass, fail, vacuous, perf_regression };
const char* name_of(Outcome outcome) noexcept;

/// Returns a failure of a run of that variation; Examination adds blames and clears.
Failure make_failure(const Variation& variation, std::int64_t round, std::int64_t position, std::string expected,
                     std::string observed, std::vector<std::string> facts);
/// Returns the round that emitted output[at]; -1 when none did.
std::int64_t round_that_emitted(const Trace& trace, std::size_t at);

/// Returns "RUN, round 3, position 12: expected: ...; observed: ...". Every message about a failure is made here.
std::string message_of(const Failure& failure);

/// The result of one check of one trial: the first failure, or how much was examined.
struct Finding {
  std::string check;
  Outcome outcome = Outcome::pass;
  long examined = 0;                    // comparisons made; a pass that compared nothing is vacuous
  std::string message;                  // in one line, whatever the outcome
  std::optional<Failure> failure = {};  // present when the outcome is fail or perf_regression
};

struct Check {
  const char* name;
  const char* proves;
  const char* blames;  // parts that can be at fault when it fails: what the two sides of its comparison do not share
  const char* clears;  // parts that cannot: what both sides share, and what is not run at all
  // nullptr for a check of a build (oracle/exact/build_checks.h), which has no trial:
  Finding (*examine)(Trial& trial);
  double (*cost)(const TrialCosts& trial);  // the seconds that it is expected to take
};

/// Counts the comparisons of a check and keeps the first failure; one that costs speed only is kept until another
/// comes.
class Examination {
 public:
  /// The check must outlive this object.
  explicit Examination(const Check& check) : check_(check) { finding_.check = check.name; }
  /// Returns `condition`. `describe` returns the Failure and is called for the first one only.
  template <class Describe>
  bool expect(bool condition, Describe describe) {
    return expect_or(Outcome::fail, condition, describe);
  }
  /// The same of what costs speed only: the state of a draft.
  template <class Describe>
  bool expect_of_draft(bool condition, Describe describe) {
    return expect_or(Outcome::perf_regression, condition, describe);
  }
  /// `missing`, when not empty, states why a pass would prove nothing.
  Finding finding(const std::string& summary, const std::string& missing = "") &&;

 private:
  template <class Describe>
  bool expect_or(Outcome outcome, bool condition, Describe describe) {
    ++finding_.examined;
    if (!condition && finding_.outcome != Outcome::fail && finding_.outcome != outcome) {
      finding_.outcome = outcome;
      finding_.failure = describe();
    }
    return condition;
  }

  const Check& check_;
  Finding finding_;
};

/// Returns a request that differs from `asked` in every field: prompt, sampling, budget and sequence, and, where there
/// is no constraint that may know them, stop tokens. It is sampled from few tokens and is no longer than `asked`.
Request another_request(const Request& asked, int vocabulary);

}  // namespace draftproof
