// SPDX-License-Identifier: MIT
// The oracle's words. A Trial is one question put to a subject in many variations; a Check looks at a trial and reports
// findings; findings are values, never exceptions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/checks/effort.h"
#include "oracle/checks/recorded_draws.h"
#include "oracle/plain/plain.h"
#include "oracle/plain/subject.h"

namespace draftproof {

struct Run {
  Variation variation;
  Trace trace;
  std::vector<RecordedDraw> ledger;
};

/// One thing that cannot be right.
struct Failure {
  std::string run = {};        // the variation, described; of a trace: the sequence
  std::int64_t line = 0;       // of the trace file
  std::int64_t round = -1;     // -1: of no one round; of the run or the sequence
  std::int64_t position = -1;  // -1: of no one position; of the text, the prompt included
  std::string expected = {};   // what the plain program says
  std::string observed = {};
  std::vector<std::string> facts = {};  // the fewest from which it follows that both cannot be right
  std::string blames = {};     // parts that can be at fault
  std::string clears = {};     // parts that cannot
  std::string reproduce = {};  // one command line that shows it again; empty when none was asked for
};

/// A request, the variations it was run in, and what plain decoding says. Plain rows are computed when first asked for
/// and kept, per numerics class and text: those that the effort says afresh from the whole text, the others of a run
/// along its text, so that their number of passes is linear in its length.
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
  /// The row after `text`, as plain decoding computes it.
  const PlainRow& row_after(const Variation& variation, std::span<const Token> text);
  /// The cache's digest after reading `text` one token at a time and nothing else; index = tokens read.
  const std::vector<Fingerprint>& cache_along(const Variation& variation, std::span<const Token> text);

  /// The first failure of the checks that hold each run by itself, and to nothing but plain decoding: text, rows,
  /// verdicts, counts.
  const std::optional<Failure>& standalone_failure();

  /// The first run of every draft under every rule, of as many as the effort asks for again: what checks that run the
  /// subject again start from.
  std::vector<const Run*> one_per_draft() const;
  /// The variation's promise for this request is the very tokens, not only their law.
  bool promises_tokens(const Variation& variation) const noexcept {
    return request.sampling.greedy() || variation.promises_tokens();
  }

 private:
  /// The longest text of a run of these numerics that begins with `text`; else `text`.
  std::vector<Token> text_of_run(const std::string& numerics, std::span<const Token> text);

  std::map<std::string, PlainRun> plain_runs_;
  std::map<std::pair<std::string, std::vector<Token>>, PlainRow> rows_;
  std::map<std::pair<std::string, std::vector<Token>>, std::vector<Fingerprint>> caches_;
  std::optional<std::optional<Failure>> standalone_failure_;  // once it was asked for
};

enum class Outcome { pass, fail, vacuous };
const char* name_of(Outcome outcome) noexcept;

/// Of a run of that variation; blame is for Examination to fill in.
Failure failure_of(const Variation& variation, std::int64_t round, std::int64_t position, std::string expected,
                   std::string observed, std::vector<std::string> facts);
/// The round that said output[at]; -1 when none did.
std::int64_t round_that_emitted(const Trace& trace, std::size_t at);

/// "RUN, round 3, position 12: expected: ...; observed: ...". Every sentence about a failure is made here.
std::string message_of(const Failure& failure);

/// What one check says of one trial: the first thing wrong, or how much was looked at.
struct Finding {
  std::string check;
  Outcome outcome = Outcome::pass;
  long examined = 0;     // things compared; a pass that compared nothing is vacuous
  std::string message;  // in one line, whatever the outcome
  std::optional<Failure> failure = {};  // there when the outcome is fail
};

struct Check {
  const char* name;
  const char* proves;
  const char* blames;  // parts that can be at fault when it fails
  const char* clears;  // parts that cannot, because it does without them or grants them to both sides
  Finding (*examine)(Trial& trial);
};

/// Every check of a trial, one file each in oracle/checks; ends with a row of nulls.
const Check* all_checks() noexcept;
/// Checks of a build, which need no trial and so have nothing to examine one with; ends with a row of nulls.
const Check* build_checks() noexcept;
/// Of either list, in which it has to be.
const Check& check_named(std::string_view name);

/// Used by checks: counts comparisons and keeps the first failure.
class Examination {
 public:
  /// `check`: the name of a row of the two lists.
  explicit Examination(const char* check);
  /// True while nothing is wrong; `describe` is called only for the first failure, and gives it.
  template <class Describe>
  bool expect(bool condition, Describe describe) {
    ++finding_.examined;
    if (!condition && finding_.outcome != Outcome::fail) {
      finding_.outcome = Outcome::fail;
      finding_.failure = describe();
    }
    return condition;
  }
  /// `missing`, when not empty, says why a pass would prove nothing.
  Finding finding(const std::string& summary, const std::string& missing = "") &&;

 private:
  const Check& check_;
  Finding finding_;
};

/// Another request, in everything that a request may say: prompt, sampling, stop tokens, budget and sequence. It is
/// drawn from, by few tokens, and no longer than `asked`.
Request another_request(const Request& asked, int vocabulary);

Finding check_tokens_equal(Trial& trial);
Finding check_logits_equal(Trial& trial);
Finding check_acceptance_correct(Trial& trial);
Finding check_cache_rollback(Trial& trial);
Finding check_batch_invariance(Trial& trial);
Finding check_config_invariance(Trial& trial);
Finding check_repeatable(Trial& trial);
Finding check_chunked_prefill_and_resume(Trial& trial);
Finding check_sequence_isolation(Trial& trial);
Finding check_log_probabilities(Trial& trial);
Finding check_termination_and_counters(Trial& trial);
Finding check_rng_accounting(Trial& trial);

}  // namespace draftproof
