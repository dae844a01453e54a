// SPDX-License-Identifier: MIT
#include <algorithm>

#include "oracle/check.h"

namespace draftproof {

Finding check_budget(Trial& trial) {
  Examination examination("budget");
  const Request& asked = trial.request;
  for (const Run& run : trial.runs) {
    const Trace& trace = run.trace;
    const auto expect = [&](bool condition, const std::string& what) {
      examination.expect(condition, [&] { return run.variation.describe() + ": " + what; });
    };
    // A run that was not run as asked would make every comparison between variations one of a thing with itself.
    const Variation& variation = run.variation;
    const Request& done = trace.request;
    expect(done.prompt == asked.prompt && done.sampling == asked.sampling && done.stops == asked.stops &&
               done.max_new_tokens == asked.max_new_tokens && done.sequence == asked.sequence &&
               done.logprobs == asked.logprobs && done.prompt_rows == variation.prompt_rows &&
               (variation.draft_max == 0 || done.draft_max == variation.draft_max),
           "another request was run than was asked");
    expect(done.verification == variation.verification, "it was verified another way than was asked");
    expect(variation.kernels.empty() || trace.kernels == variation.kernels,
           "it was computed by the table " + trace.kernels);
    expect(trace.threads == 0 || trace.threads == variation.threads,
           "it was computed with " + std::to_string(trace.threads) + " threads");

    const auto& output = trace.output;
    const int size = static_cast<int>(output.size());
    expect(size <= asked.max_new_tokens,
           std::to_string(size) + " tokens were emitted, " + std::to_string(asked.max_new_tokens) + " asked for");
    const auto stop = std::find_if(output.begin(), output.end(), [&](Token token) { return asked.stops_at(token); });
    expect(stop == output.end() || stop + 1 == output.end(), "text goes on after a stop token");
    const bool stopped = stop != output.end();
    expect(trace.finish == (stopped ? Finish::stop : Finish::length),
           std::string("finished by ") + name_of(trace.finish) + (stopped ? " after a stop token" : " without one"));
    expect(stopped || size == asked.max_new_tokens, "the text ends early, at " + std::to_string(size) + " tokens");
    expect(trace.resting_length == static_cast<int>(asked.prompt.size()) + size - 1,
           "the cache rests at " + std::to_string(trace.resting_length) +
               " positions instead of prompt + output - 1 = " +
               std::to_string(static_cast<int>(asked.prompt.size()) + size - 1));

    int emitted = 0;
    for (const Round& round : trace.rounds) {
      const int left = asked.max_new_tokens - emitted;
      expect(round.proposal.size() < std::max(1, left), "a round guesses past the budget");
      expect(variation.draft_max == 0 || round.proposal.size() <= variation.draft_max,
             "a round holds more guesses than were asked for");
      expect(round.passes == (variation.verification == Verification::batched ? 1 : round.verdict.accepted + 1),
             "a round took " + std::to_string(round.passes) + " passes of the target");
      expect(!round.emitted.empty(), "a round emits nothing");
      expect(round.accepted == std::min(round.verdict.accepted, static_cast<int>(round.emitted.size())),
             "a round counts " + std::to_string(round.accepted) + " accepted guesses, " +
                 std::to_string(round.verdict.accepted) + " stood and " + std::to_string(round.emitted.size()) +
                 " tokens were emitted");
      for (const Token token : round.emitted) {
        expect(emitted < size && output[static_cast<std::size_t>(emitted)] == token, "rounds and output disagree");
        ++emitted;
      }
    }
    expect(emitted == size, "rounds and output disagree in length");

    const Statistics counted = recounted(trace);
    const Statistics& stated = trace.statistics;
    expect(counted.rounds == stated.rounds && counted.iterations == stated.iterations &&
               counted.drafted == stated.drafted && counted.accepted == stated.accepted &&
               counted.mismatches == stated.mismatches && counted.all_accepted == stated.all_accepted &&
               counted.batched == stated.batched && counted.serial == stated.serial,
           "the statistics do not follow from the rounds");
  }
  return std::move(examination).finding(std::to_string(trial.runs.size()) + " runs keep to what was asked");
}

}  // namespace draftproof
