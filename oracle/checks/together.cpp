// SPDX-License-Identifier: MIT
// Two sequences in one process: between the first rounds of one, the other is decoded whole. Both must say what they
// say alone, and ask for random answers of their own sequence only.
#include <algorithm>

#include "oracle/check.h"
#include "oracle/same_history.h"

namespace draftproof {
namespace {

constexpr int visits = 2;

/// Notices a question for another sequence.
class OneSequence final : public Chance {
 public:
  OneSequence(std::uint64_t seed, int sequence) : sound_(seed), sequence_(sequence) {}
  std::size_t pick(const Key& key, std::span<const std::uint64_t> weights) override {
    strange = strange || key.sequence != sequence_;
    return sound_.pick(key, weights);
  }
  bool strange = false;

 private:
  SeededChance sound_;
  int sequence_;
};

}  // namespace

Finding check_together(Trial& trial) {
  Examination examination("together");
  int pairs = 0;
  for (const Run* const run : trial.one_per_draft()) {
    const Variation& variation = run->variation;
    const bool promised = trial.promises_tokens(variation);
    const auto expect = [&](const char* which, std::optional<Failure> what, const OneSequence& chance) {
      examination.expect(!what && !chance.strange, [&] {
        if (!what) {
          what = failure_of(variation, -1, -1, "random answers of its own sequence only",
                            "it asked for random answers of another sequence",
                            {"a key holds the sequence that was asked for"});
        }
        what->run = variation.describe() + ", " + which;
        return *what;
      });
    };
    if (run->trace.rounds.empty()) continue;
    ++pairs;
    Request other = trial.request;
    std::reverse(other.prompt.begin(), other.prompt.end());
    other.sequence = trial.request.sequence + 1;
    OneSequence alone_chance(trial.seed, other.sequence);
    const Trace alone = trial.subject.run(other, variation, alone_chance);
    expect("another sequence by itself", {}, alone_chance);

    OneSequence chance(trial.seed, trial.request.sequence);
    int rounds = 0;
    const Trace trace = trial.subject.run_watched(trial.request, variation, chance, [&](const Trace&) {
      if (++rounds > visits) return true;
      OneSequence other_chance(trial.seed, other.sequence);
      const Trace between = trial.subject.run(other, variation, other_chance);
      expect("a sequence between the rounds of another", difference(alone, 0, between, true, promised), other_chance);
      return true;
    });
    expect("a sequence with another between its rounds", difference(run->trace, 0, trace, true, promised), chance);
  }
  return std::move(examination).finding(std::to_string(pairs) + " pairs of sequences, each as it is alone");
}

}  // namespace draftproof
