// SPDX-License-Identifier: MIT
// Two sequences in one process: between the first rounds of one, another request is decoded completely. Alone, the
// other request must match plain decoding. Together, both must give what they give alone and draw under keys of their
// own sequence only.
#include <algorithm>

#include "oracle/checks/checks.h"
#include "oracle/checks/same_run.h"

namespace draftproof {
namespace {

constexpr int visits = 2;  // rounds between which the other request runs

/// Notices a draw under the key of another sequence.
class OneSequence final : public RandomSource {
 public:
  OneSequence(std::uint64_t seed, int sequence) : source_(seed), sequence_(sequence) {}
  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override {
    foreign = foreign || key.sequence != sequence_;
    return source_.sample_index(key, weights);
  }
  bool foreign = false;

 private:
  PhiloxSource source_;
  int sequence_;
};

/// Runs the other request alone, and then between the rounds of `run`. `other` is the run of `alone` in that variation.
void examine_pair(Trial& trial, const Run& run, Trial& alone, const Run& other, Examination& examination) {
  const Variation& variation = run.variation;
  const auto expect = [&](const char* which, std::optional<Failure> what, bool foreign_draw) {
    examination.expect(!what && !foreign_draw, [&] {
      if (!what) {
        what = failure_of(variation, -1, -1, "random draws under keys of its own sequence only",
                          "it drew under the key of another sequence",
                          {"a key contains the sequence of the request"});
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
           difference(other.trace, 0, between, true, alone.promises_tokens(variation)), other_random.foreign);
    return true;
  });
  expect("a sequence with another between its rounds",
         difference(run.trace, 0, trace, true, trial.promises_tokens(variation)), random.foreign);
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
  return std::move(examination)
      .finding(std::to_string(firsts.size()) + " pairs of sequences, each as it is alone",
               others_differ ? "" : "both requests give the same text, so a mix-up of the two could not be seen");
}

}  // namespace

const Check sequence_isolation = {
    "sequence_isolation",
    "a run stays the same while another request, itself right, is decoded between its rounds",
    "what sequences share: KV caches, a generator, scratch buffers, the request; keys without their sequence; where "
    "the other request fails alone, everything that tokens_equal, logits_equal, acceptance_correct and "
    "termination_and_counters blame",
    "what is wrong in the same way in this request alone: the model, the rule, sampling",
    examine_sequence_isolation};

}  // namespace draftproof
