// SPDX-License-Identifier: MIT
// Requests whose prompts begin like texts that were decoded before, with a prefix cache: the same prompt, the prompt
// and the text that followed it, and a prompt that leaves it in the middle. Each must give what it gives alone, without
// the prefix cache, to the last bit.
#include <algorithm>

#include "oracle/checks/checks.h"
#include "oracle/checks/companions.h"

namespace draftproof {
namespace {

constexpr int one_after_the_other = 1 << 20;  // passes: each begins when those before it have ended

/// Returns the trial's request, and others that continue the text of its run in different ways.
std::vector<Companion> make_conversation(const Trial& trial, const Run& run, int vocabulary) {
  std::vector<Companion> companions(4, {.request = trial.request, .variation = run.variation});
  std::vector<Token> text = trial.request.prompt;
  text.insert(text.end(), run.trace.output.begin(), run.trace.output.end());
  companions[1].request.sampling = {.temperature = 1, .top_k = 3};
  companions[2].request.prompt = text;
  companions[2].request.prompt.resize(text.size() - std::min(text.size() - 1, run.trace.output.size() / 2));
  companions[3].request.prompt.resize((trial.request.prompt.size() + 1) / 2);
  companions[3].request.prompt.push_back((trial.request.prompt.back() + 1) % vocabulary);
  for (std::size_t i = 0; i < companions.size(); ++i) {
    Request& request = companions[i].request;
    request.sequence += static_cast<int>(i);
    const auto max = static_cast<int>(text.size() - std::min(text.size(), request.prompt.size()));
    if (i > 0) request.max_new_tokens = std::clamp(request.max_new_tokens / 2, std::min(1, max), max);
    companions[i].timetable.joins_after = static_cast<int>(i) * one_after_the_other;
  }
  return companions;
}

Finding examine_prefix_reuse(Trial& trial) {
  Examination examination(prefix_reuse);
  long reused = 0;
  long compared = 0;
  for (const Run* const run : trial.one_per_draft()) {
    if (run->trace.output.empty()) continue;
    const int vocabulary = trial.subject.target(run->variation).vocabulary();
    std::vector<Companion> companions = make_conversation(trial, *run, vocabulary);
    std::vector<OneSequence> randoms;
    for (const Companion& one : companions) randoms.emplace_back(trial.seed, one.request.sequence);
    for (std::size_t i = 0; i < companions.size(); ++i) companions[i].random = &randoms[i];
    const std::optional<JointRun> warm = trial.subject.run_together(companions, {.prefix_cache = true});
    if (!warm) continue;
    expect_as_alone(companions, alone(trial, companions), *warm, randoms, "with a prefix cache", examination);
    compared += std::ssize(companions);
    for (const Trace& trace : warm->traces) reused += trace.reused;
  }
  return std::move(examination)
      .finding(std::to_string(compared) + " requests that reused " + std::to_string(reused) +
                   " positions of earlier ones, each as it is alone",
               compared > 0 && reused == 0 ? "no request reused a position" : "");
}

}  // namespace

const Check prefix_reuse = {
    "prefix_reuse",
    "a request that takes its beginning from a prefix cache is what it is without one, to the last bit",
    "snapshots and what is published when, the prefix cache, the context of the draft that belongs to it",
    "what is wrong in the same way without a prefix cache",
    examine_prefix_reuse,
    [](const TrialCosts& trial) { return 6 * trial.repeated_runs; }};

}  // namespace draftproof
