// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "oracle/checks/check.h"

namespace draftproof {
namespace {

std::string counts_of(const Statistics& s) {
  const std::pair<const char*, int> counts[] = {{"rounds", s.rounds},         {"iterations", s.iterations},
                                                {"drafted", s.drafted},       {"accepted", s.accepted},
                                                {"mismatches", s.mismatches}, {"all accepted", s.all_accepted},
                                                {"batched", s.batched},       {"serial", s.serial}};
  std::string text;
  for (const auto& [name, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  return text;
}

}  // namespace

Finding check_termination_and_counters(Trial& trial) {
  Examination examination("termination_and_counters");
  const Request& asked = trial.request;
  for (const Run& run : trial.runs) {
    const Trace& trace = run.trace;
    const Variation& variation = run.variation;
    std::int64_t at = -1;  // the round looked at
    const auto expect = [&](bool condition, const std::string& expected, const std::string& observed,
                            const std::string& fact) {
      examination.expect(condition,
                         [&] { return failure_of(variation, at, -1, expected, observed, {fact}); });
    };
    // A run that was not run as asked would make every comparison between variations one of a thing with itself.
    const Request& done = trace.request;
    const char* const record = "a run records what it was asked and how it was computed";
    expect(done.prompt == asked.prompt && done.sampling == asked.sampling && done.stops == asked.stops &&
               done.max_new_tokens == asked.max_new_tokens && done.sequence == asked.sequence &&
               done.logprobs == asked.logprobs && done.prefill_chunk == variation.prefill_chunk &&
               (variation.draft_max == 0 || done.draft_max == variation.draft_max),
           "the request that was asked", "another request was run", record);
    expect(done.verification == variation.verification, std::string(name_of(variation.verification)) + " verification",
           std::string(name_of(done.verification)) + " verification", record);
    expect(variation.kernels.empty() || trace.kernels == variation.kernels, "the table " + variation.kernels,
           "the table " + trace.kernels, record);
    expect(trace.threads == 0 || trace.threads == variation.threads, std::to_string(variation.threads) + " threads",
           std::to_string(trace.threads) + " threads", record);

    const auto& output = trace.output;
    const int size = static_cast<int>(output.size());
    const std::string tokens = std::to_string(size) + " tokens were emitted";
    const std::string wanted = std::to_string(asked.max_new_tokens) + " asked for";
    expect(size <= asked.max_new_tokens, "at most " + std::to_string(asked.max_new_tokens) + " tokens", tokens, wanted);
    const auto stop = std::find_if(output.begin(), output.end(), [&](Token token) { return asked.stops_at(token); });
    const bool stopped = stop != output.end();
    const std::string said_stop = stopped ? "output " + std::to_string(stop - output.begin()) + " is stop token " +
                                                std::to_string(*stop)
                                          : "no stop token was emitted";
    expect(!stopped || stop + 1 == output.end(), "the text ends with a stop token", "it goes on after one", said_stop);
    expect(trace.finish == (stopped ? Finish::stop : Finish::length),
           std::string("finished by ") + name_of(stopped ? Finish::stop : Finish::length),
           std::string("finished by ") + name_of(trace.finish) + (stopped ? " after a stop token" : " without one"),
           said_stop);
    expect(stopped || size == asked.max_new_tokens, std::to_string(asked.max_new_tokens) + " tokens",
           "the text ends early, at " + std::to_string(size), said_stop);
    const int resting = static_cast<int>(asked.prompt.size()) + size - 1;
    expect(trace.final_length == resting, "the cache rests at " + std::to_string(resting) + " positions",
           "it rests at " + std::to_string(trace.final_length) + " positions",
           "a cache rests at prompt + output - 1 positions: the last token was never read");

    int emitted = 0;
    at = 0;
    for (const Round& round : trace.rounds) {
      const int left = asked.max_new_tokens - emitted;
      const std::string draft_tokens = "the round holds " + std::to_string(round.proposal.size()) + " draft tokens";
      expect(round.proposal.size() < std::max(1, left), "draft tokens that leave room for the target's token", draft_tokens,
             std::to_string(std::max(0, left)) + " tokens are left of the budget");
      expect(variation.draft_max == 0 || round.proposal.size() <= variation.draft_max,
             "at most " + std::to_string(variation.draft_max) + " draft tokens", draft_tokens, "so many were asked for");
      const bool batched = variation.verification == Verification::batched;
      expect(round.passes == (batched ? 1 : round.verdict.accepted + 1),
             std::to_string(batched ? 1 : round.verdict.accepted + 1) + " passes of the target",
             "the round took " + std::to_string(round.passes) + " passes",
             batched ? "a batched verification is one pass"
                     : "a serial verification reads a row for each draft token that stands, and one more");
      expect(!round.emitted.empty(), "at least one token", "the round emits nothing",
             "the target's own token follows whatever stands");
      expect(round.accepted == std::min(round.verdict.accepted, static_cast<int>(round.emitted.size())),
             "accepted draft tokens are those that stand and are emitted",
             "the round counts " + std::to_string(round.accepted) + " accepted draft tokens",
             std::to_string(round.verdict.accepted) + " stood and " + std::to_string(round.emitted.size()) +
                 " tokens were emitted");
      for (const Token token : round.emitted) {
        expect(emitted < size && output[static_cast<std::size_t>(emitted)] == token,
               "output " + std::to_string(emitted) + " is token " + std::to_string(token) + ", as the round says",
               emitted < size ? "output and rounds disagree: it is token " +
                                    std::to_string(output[static_cast<std::size_t>(emitted)])
                              : std::string("output and rounds disagree: the output has ended"),
               "the output is what the rounds emitted, one after the other");
        ++emitted;
      }
      ++at;
    }
    at = -1;
    expect(emitted == size, std::to_string(emitted) + " tokens of output, as the rounds emitted", tokens,
           "the output is what the rounds emitted, one after the other");

    const Statistics counted = recounted(trace);
    const Statistics& stated = trace.statistics;
    expect(counted.rounds == stated.rounds && counted.iterations == stated.iterations &&
               counted.drafted == stated.drafted && counted.accepted == stated.accepted &&
               counted.mismatches == stated.mismatches && counted.all_accepted == stated.all_accepted &&
               counted.batched == stated.batched && counted.serial == stated.serial,
           "the statistics that follow from the rounds: " + counts_of(counted), counts_of(stated),
           "every count can be counted again from the rounds");
  }
  return std::move(examination).finding(std::to_string(trial.runs.size()) + " runs keep to what was asked");
}

}  // namespace draftproof
