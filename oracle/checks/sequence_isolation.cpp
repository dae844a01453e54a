// SPDX-License-Identifier: MIT
// Sequences beside each other. In turns: between the first rounds of one, another request is decoded completely. In
// joint passes: several requests are decoded together, which come and go; one is preempted, one cancelled, one fails.
// Alone, the other request must match plain decoding. Together, each must give what it gives alone and draw under keys
// of its own sequence only.
#include <algorithm>

#include "oracle/checks/checks.h"
#include "oracle/checks/companions.h"
#include "oracle/checks/same_run.h"

namespace draftproof {
namespace {

constexpr int visits = 2;  // rounds between which the other request runs

/// How the sequences of a batch come and go.
struct WayToJoin {
  const char* name;
  int gap;        // passes between one and the next
  bool reversed;  // the last one comes first
  bool trouble;   // the second is preempted, the third cancelled; the random numbers of the fourth fail
  int rows_per_pass;
};
/// Those that find most for their time first.
constexpr WayToJoin ways_to_join[] = {{"that come one after the other and some of which leave", 1, false, true, 24},
                                      {"that come together", 0, false, false, 256},
                                      {"that come in reverse order", 2, true, true, 64},
                                      {"in passes of few rows", 0, false, true, 5}};

/// Runs the other request alone, and then between the rounds of `run`. `other` is the run of `alone` in that variation.
void examine_pair(Trial& trial, const Run& run, Trial& alone, const Run& other, Examination& examination) {
  const Variation& variation = run.variation;
  const auto expect = [&](const char* which, std::optional<Failure> what, bool foreign_draw) {
    examination.expect(!what && !foreign_draw, [&] {
      if (!what) {
        what =
            make_failure(variation, -1, -1, "random draws under keys of its own sequence only",
                         "it drew under the key of another sequence", {"a key contains the sequence of the request"});
      }
      what->run = variation.describe() + ", " + which;
      return *what;
    });
  };
  const bool foreign = std::any_of(other.draws.begin(), other.draws.end(), [&](const RecordedDraw& entry) {
    return entry.key.sequence != alone.request.sequence;
  });
  expect("another sequence alone", {}, foreign);

  OneSequence random(trial.seed, trial.request.sequence);
  int rounds = 0;
  const Trace trace = trial.subject.run_with_callback(trial.request, variation, random, [&](const Trace&) {
    if (++rounds > visits) return true;
    OneSequence other_random(trial.seed, alone.request.sequence);
    const Trace between = trial.subject.run(alone.request, variation, other_random);
    expect("a sequence between the rounds of another",
           difference(other.trace, 0, between, true, alone.promises_tokens(variation)), other_random.foreign());
    return true;
  });
  expect("a sequence with another between its rounds",
         difference(run.trace, 0, trace, true, trial.promises_tokens(variation)), random.foreign());
}

struct Passes {
  long all = 0;
  long shared = 0;
  long batches = 0;
  bool possible = true;  // the subject decodes several requests together
};

/// Runs batches of sequences and compares each with what it gives alone.
Passes examine_batches(Trial& trial, Examination& examination) {
  Passes passes;
  std::vector<Companion> companions = make_companions(trial, trial.effort.sequences);
  if (companions.empty()) return passes;
  std::vector<Trace> expected;
  const int count = static_cast<int>(companions.size());
  for (const WayToJoin& way : first_of(ways_to_join, trial.effort.batches)) {
    std::vector<OneSequence> randoms;
    for (int i = 0; i < count; ++i) {
      randoms.emplace_back(trial.seed, companions[i].request.sequence, way.trouble && i == 3 ? 4 : -1);
    }
    for (int i = 0; i < count; ++i) {
      companions[i].random = &randoms[i];
      companions[i].timetable = {.joins_after = way.gap * (way.reversed ? count - 1 - i : i),
                                 .preempted_after = way.trouble && i % 4 == 1 ? 1 : Timetable::never,
                                 .cancelled_after = way.trouble && i % 4 == 2 ? 2 : Timetable::never};
    }
    const std::optional<JointRun> run = trial.subject.run_together(companions, {.rows_per_pass = way.rows_per_pass});
    passes.possible = run.has_value();
    if (!run) return passes;
    if (expected.empty()) expected = alone(trial, companions);
    ++passes.batches;
    passes.all += run->passes;
    passes.shared += run->shared;
    expect_as_alone(companions, expected, *run, randoms, way.name, examination);
  }
  return passes;
}

Finding examine_sequence_isolation(Trial& trial) {
  Examination examination(sequence_isolation);
  std::vector<const Run*> firsts = trial.one_per_draft();
  std::erase_if(firsts, [](const Run* run) { return run->trace.rounds.empty(); });
  if (firsts.empty()) return std::move(examination).finding("");
  std::vector<Variation> variations;
  for (const Run* const run : firsts) variations.push_back(run->variation);
  const int vocabulary = trial.subject.target(variations[0]).vocabulary();
  Trial alone(trial.subject, another_request(trial.request, vocabulary), trial.seed, variations, trial.effort);
  if (!trial.standalone_failure()) {  // a fault of every request is reported by other checks
    examination.expect(!alone.standalone_failure(), [&] {
      Failure wrong = *alone.standalone_failure();
      wrong.run += ", another request alone";
      return wrong;
    });
  }
  bool others_differ = false;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    others_differ = others_differ || alone.runs[i].trace.output != firsts[i]->trace.output;
    examine_pair(trial, *firsts[i], alone, alone.runs[i], examination);
  }
  const Passes passes = examine_batches(trial, examination);
  const std::string batches = passes.possible
                                  ? "; " + std::to_string(passes.batches) + " batches of " +
                                        std::to_string(trial.effort.sequences) + " sequences, which shared " +
                                        std::to_string(passes.shared) + " of " + std::to_string(passes.all) + " passes"
                                  : "";
  std::string missing;
  if (!others_differ) {
    missing = "both requests give the same text, so a mix-up of the two could not be seen";
  } else if (passes.possible && passes.shared == 0) {
    missing = "no pass had rows of two sequences";
  }
  return std::move(examination)
      .finding(std::to_string(firsts.size()) + " pairs of sequences" + batches + ", each as it is alone", missing);
}

/// Each sequence alone, and in batches; on average they have two thirds of the tokens.
double cost_of_sequence_isolation(const TrialCosts& trial) {
  const double joint = trial.effort.sequences * (1.0 + std::min(trial.effort.batches, 4)) * 2 / 3 * trial.first_run;
  return 2.5 * trial.repeated_runs + joint;
}

}  // namespace

const Check sequence_isolation = {
    "sequence_isolation",
    "a run stays the same while other requests are decoded between its rounds and in its passes, whoever comes, goes, "
    "is preempted or fails",
    "what sequences share: passes, KV caches, a generator, scratch buffers, the request; keys without their sequence; "
    "where the other request fails alone, everything that tokens_equal, logits_equal, acceptance_correct and "
    "termination_and_counters blame",
    "what is wrong in the same way in this request alone: the model, the rule, sampling",
    examine_sequence_isolation,
    cost_of_sequence_isolation};

}  // namespace draftproof
