// SPDX-License-Identifier: MIT
#include <algorithm>
#include <utility>

#include "oracle/checks/checks.h"

namespace draftproof {
namespace {

std::string counts_of(const Statistics& s) {
  const std::pair<const char*, int> counts[] = {
      {"rounds", s.rounds},     {"iterations", s.iterations}, {"drafted", s.drafted},
      {"accepted", s.accepted}, {"mismatches", s.mismatches}, {"all accepted", s.all_accepted},
      {"batched", s.batched},   {"serial", s.serial},         {"redecoded", s.redecoded}};
  std::string text;
  for (const auto& [name, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  return text;
}

class RunCheck {
 public:
  RunCheck(const Request& asked, const Run& run, Examination& examination)
      : asked_(asked), variation_(run.variation), trace_(run.trace), examination_(examination) {}

  void examine() {
    expect_request();
    expect_end();
    expect_rounds();
    expect_statistics();
  }

 private:
  void expect(bool condition, const std::string& expected, const std::string& observed, const std::string& fact) {
    examination_.expect(condition, [&] { return make_failure(variation_, round_, -1, expected, observed, {fact}); });
  }

  /// A run that was not executed as requested would make comparisons between variations compare a run with itself.
  void expect_request() {
    const char* const record = "a run records its request and how it was computed";
    expect(trace_.request == asked_, "the given request", "another request was run", record);
    const Execution& execution = trace_.execution;
    expect(execution.prefill_chunk == variation_.prefill_chunk &&
               (variation_.draft_max == 0 || execution.draft_max == variation_.draft_max),
           "the given draft length and prefill chunk", "the run had others", record);
    expect(execution.verification == variation_.verification,
           std::string(name_of(variation_.verification)) + " verification",
           std::string(name_of(execution.verification)) + " verification", record);
    expect(variation_.kernels.empty() || trace_.kernels == variation_.kernels, "the kernel table " + variation_.kernels,
           "the kernel table " + trace_.kernels, record);
    expect(trace_.threads == 0 || trace_.threads == variation_.threads, std::to_string(variation_.threads) + " threads",
           std::to_string(trace_.threads) + " threads", record);
  }

  void expect_end() {
    const auto& output = trace_.output;
    const std::string budget = std::to_string(asked_.max_new_tokens);
    expect(size() <= asked_.max_new_tokens, "at most " + budget + " tokens", emitted_tokens(),
           "the budget is " + budget + " tokens");
    std::vector<Token> text = asked_.prompt;
    std::size_t end = 0;  // of the text: so many tokens of the output
    while (end < output.size() && (end == 0 || !ends_at_last(asked_, text))) text.push_back(output[end++]);
    const bool stopped = end > 0 && ends_at_last(asked_, text);
    const std::string fact =
        stopped ? "output " + std::to_string(end - 1) + ", token " + std::to_string(text.back()) +
                      (asked_.stops_at(text.back()) ? ", is a stop token" : ", completes what the constraint allows")
                : "nothing that was emitted ends the text";
    expect(!stopped || end == output.size(), "the text ends there", "it continues", fact);
    const Finish finish = stopped ? Finish::stop : Finish::length;
    expect(trace_.finish == finish, std::string("finished by ") + name_of(finish),
           std::string("finished by ") + name_of(trace_.finish) + (stopped ? " at its end" : " before its end"), fact);
    expect(stopped || size() == asked_.max_new_tokens, budget + " tokens",
           "the text ends early, after " + std::to_string(size()), fact);
    const int read = static_cast<int>(asked_.prompt.size()) + size() - 1;
    const int final_length = read - (asked_.context_shift ? asked_.context_shift->dropped(read) : 0);
    expect(trace_.final_length == final_length, "the final cache holds " + std::to_string(final_length) + " positions",
           "it holds " + std::to_string(trace_.final_length) + " positions",
           "a final cache holds prompt + output - 1 positions, because the last token was never read, less those that "
           "a context shift dropped");
  }

  void expect_rounds() {
    const auto& output = trace_.output;
    const char* const fact = "the output is what the rounds emitted, in order";
    int emitted = 0;
    round_ = 0;
    for (const Round& round : trace_.rounds) {
      expect_counts(round, asked_.max_new_tokens - emitted);
      for (const Token token : round.emitted) {
        expect(emitted < size() && output[emitted] == token,
               "output " + std::to_string(emitted) + " is token " + std::to_string(token) + ", as the round emitted",
               emitted < size() ? "output and rounds disagree: it is token " + std::to_string(output[emitted])
                                : std::string("output and rounds disagree: the output has ended"),
               fact);
        ++emitted;
      }
      ++round_;
    }
    round_ = -1;
    expect(emitted == size(), std::to_string(emitted) + " tokens of output, as the rounds emitted", emitted_tokens(),
           fact);
  }

  /// `left`: tokens of the budget that are left when the round begins.
  void expect_counts(const Round& round, int left) {
    const std::string draft_tokens = "the round has " + std::to_string(round.proposal.size()) + " draft tokens";
    expect(round.proposal.size() < std::max(1, left), "few enough draft tokens to leave room for the target's token",
           draft_tokens, std::to_string(std::max(0, left)) + " tokens of the budget are left");
    expect(variation_.draft_max == 0 || round.proposal.size() <= variation_.draft_max,
           "at most " + std::to_string(variation_.draft_max) + " draft tokens", draft_tokens,
           "that is the requested draft length");
    expect(!round.emitted.empty(), "at least one token", "the round emits nothing",
           "the target's own token follows the accepted draft tokens");
    expect(round.accepted == std::min(round.verdict.accepted, static_cast<int>(round.emitted.size())),
           "the accepted draft tokens of a round are those that were accepted and emitted",
           "the round counts " + std::to_string(round.accepted) + " accepted draft tokens",
           std::to_string(round.verdict.accepted) + " were accepted and " + std::to_string(round.emitted.size()) +
               " tokens were emitted");
  }

  void expect_statistics() {
    const Statistics counted = recounted(trace_);
    const Statistics& stated = trace_.statistics;
    expect(counted.rounds == stated.rounds && counted.iterations == stated.iterations &&
               counted.drafted == stated.drafted && counted.accepted == stated.accepted &&
               counted.mismatches == stated.mismatches && counted.all_accepted == stated.all_accepted &&
               counted.batched == stated.batched && counted.serial == stated.serial &&
               counted.redecoded == stated.redecoded,
           "the statistics that follow from the rounds: " + counts_of(counted), counts_of(stated),
           "every count can be counted again from the rounds");
  }

  int size() const { return static_cast<int>(trace_.output.size()); }
  std::string emitted_tokens() const { return std::to_string(size()) + " tokens were emitted"; }

  const Request& asked_;
  const Variation& variation_;
  const Trace& trace_;
  Examination& examination_;
  std::int64_t round_ = -1;  // the one being examined; -1: the run
};

Finding examine_termination_and_counters(Trial& trial) {
  Examination examination(termination_and_counters);
  for (const Run& run : trial.runs) RunCheck(trial.request, run, examination).examine();
  return std::move(examination).finding(std::to_string(trial.runs.size()) + " runs keep to the request");
}

}  // namespace

const Check termination_and_counters = {
    "termination_and_counters",
    "length, stop tokens, final position and statistics are what the request asks for",
    "the decode loop: where the text ends, how many rows and draft tokens a round has, what is counted, a run other "
    "than the requested one",
    "the model, sampling and the distribution that the rule preserves, because no probability is examined",
    examine_termination_and_counters,
    costs_nothing};

}  // namespace draftproof
