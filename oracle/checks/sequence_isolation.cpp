// SPDX-License-Identifier: MIT
// Two sequences in one process: between the first rounds of one, another request is decoded whole. Alone that one must
// say what plain decoding says; together both must say what they say alone, and ask for random answers of their own
// sequence only.
#include <algorithm>

#include "oracle/checks/check.h"
#include "oracle/checks/same_run.h"

namespace draftproof {
namespace {

constexpr int visits = 2;

/// Notices a question for another sequence.
class OneSequence final : public RandomSource {
 public:
  OneSequence(std::uint64_t seed, int sequence) : sound_(seed), sequence_(sequence) {}
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override {
    strange = strange || key.sequence != sequence_;
    return sound_.sample_index(key, weights);
  }
  bool strange = false;

 private:
  PhiloxSource sound_;
  int sequence_;
};

}  // namespace

Finding check_sequence_isolation(Trial& trial) {
  Examination examination("sequence_isolation");
  int pairs = 0;
  std::vector<const Run*> firsts = trial.one_per_draft();
  std::erase_if(firsts, [](const Run* run) { return run->trace.rounds.empty(); });
  if (firsts.empty()) return std::move(examination).finding("");
  std::vector<Variation> variations;
  for (const Run* const run : firsts) variations.push_back(run->variation);
  const int vocabulary = trial.subject.target(variations[0]).vocabulary();
  Trial alone(trial.subject, another_request(trial.request, vocabulary), trial.seed, variations, trial.effort);
  // What is wrong in every request is for other checks to say.
  if (!trial.standalone_failure()) {
    examination.expect(!alone.standalone_failure(), [&] {
      Failure wrong = *alone.standalone_failure();
      wrong.run += ", another request by itself";
      return wrong;
    });
  }
  bool others_differ = false;
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const Run* const run = firsts[i];
    const Run& other = alone.runs[i];
    const Variation& variation = run->variation;
    const bool promised = trial.promises_tokens(variation);
    others_differ = others_differ || other.trace.output != run->trace.output;
    const auto expect = [&](const char* which, std::optional<Failure> what, const OneSequence& random) {
      examination.expect(!what && !random.strange, [&] {
        if (!what) {
          what = failure_of(variation, -1, -1, "random answers of its own sequence only",
                            "it asked for random answers of another sequence",
                            {"a key holds the sequence that was asked for"});
        }
        what->run = variation.describe() + ", " + which;
        return *what;
      });
    };
    ++pairs;
    const bool own = std::all_of(other.ledger.begin(), other.ledger.end(), [&](const RecordedDraw& entry) {
      return entry.key.sequence == alone.request.sequence;
    });
    OneSequence alone_random(trial.seed, alone.request.sequence);
    alone_random.strange = !own;
    expect("another sequence by itself", {}, alone_random);

    OneSequence random(trial.seed, trial.request.sequence);
    int rounds = 0;
    const Trace trace = trial.subject.run_with_callback(trial.request, variation, random, [&](const Trace&) {
      if (++rounds > visits) return true;
      OneSequence other_random(trial.seed, alone.request.sequence);
      const Trace between = trial.subject.run(alone.request, variation, other_random);
      expect("a sequence between the rounds of another",
             difference(other.trace, 0, between, true, alone.promises_tokens(variation)), other_random);
      return true;
    });
    expect("a sequence with another between its rounds", difference(run->trace, 0, trace, true, promised), random);
  }
  return std::move(examination)
      .finding(std::to_string(pairs) + " pairs of sequences, each as it is alone",
               others_differ ? "" : "both requests say the same text, so neither could be taken for the other");
}

}  // namespace draftproof
