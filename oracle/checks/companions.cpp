// SPDX-License-Identifier: MIT
#include "oracle/checks/companions.h"

#include <algorithm>

#include "oracle/checks/same_run.h"
#include "ref/base/error.h"

namespace draftproof {

std::size_t OneSequence::sample_index(const Key& key, std::span<const std::uint64_t> weights) {
  foreign_ = foreign_ || key.sequence != sequence_;
  if (left_-- == 0) throw Error("the source of random numbers was told to fail");
  return source_.sample_index(key, weights);
}

std::vector<Companion> make_companions(Trial& trial, int count) {
  std::vector<Variation> variations;
  for (const Run* const run : trial.one_per_draft()) {
    Variation variation = run->variation;
    if (!variations.empty()) {
      variation.kernels = variations.front().kernels;
      variation.threads = variations.front().threads;
      variation.verification = variations.front().verification;
    }
    variations.push_back(variation);
  }
  if (variations.empty()) return {};
  const int vocabulary = trial.subject.target(variations.front()).vocabulary();
  std::vector<Companion> companions;
  for (int i = 0; i < count; ++i) {
    Companion one;
    one.request = trial.request;
    Request& request = one.request;
    one.variation = variations[static_cast<std::size_t>(i) % variations.size()];
    if (i > 0) {
      std::vector<Token>& prompt = request.prompt;
      std::ranges::rotate(prompt, prompt.begin() + i % std::ssize(prompt));
      prompt.resize(std::max<std::size_t>(1, prompt.size() - static_cast<std::size_t>(i) % prompt.size()));
      prompt.back() = (prompt.back() + i) % vocabulary;
      if (i % 3 == 1) request.sampling = {.temperature = 1, .top_k = 3, .presence_penalty = 0.5F};
      if (i % 3 == 2) request.sampling = {};
      if (i % 2 == 1) request.stops.push_back((prompt.front() + i) % vocabulary);
      request.max_new_tokens = (request.max_new_tokens * (1 + i % 3) + 2) / 3;
      request.sequence += i;
    }
    companions.push_back(std::move(one));
  }
  return companions;
}

std::vector<Trace> alone(Trial& trial, std::span<const Companion> companions) {
  std::vector<Trace> traces;
  for (const Companion& one : companions) {
    PhiloxSource random(trial.seed);
    traces.push_back(trial.subject.run(one.request, one.variation, random));
  }
  return traces;
}

void expect_as_alone(std::span<const Companion> companions, std::span<const Trace> expected, const JointRun& run,
                     std::span<const OneSequence> randoms, const std::string& how, Examination& examination) {
  const auto name_of_run = [&](std::size_t i) {
    return companions[i].variation.describe() + ", sequence " + std::to_string(i) + " of " +
           std::to_string(companions.size()) + " " + how;
  };
  for (std::size_t i = 0; i < companions.size(); ++i) {
    const Companion& one = companions[i];
    const bool whole = one.timetable.cancelled_after == Timetable::never && run.errors[i].empty();
    const bool promised = one.request.sampling.greedy() || one.variation.promises_tokens();
    std::optional<Failure> what = difference(expected[i], 0, run.traces[i], whole, promised);
    examination.expect(!what && !randoms[i].foreign(), [&] {
      if (!what) {
        what =
            make_failure(one.variation, -1, -1, "random draws under keys of its own sequence only",
                         "it drew under the key of another sequence", {"a key contains the sequence of the request"});
      }
      what->run = name_of_run(i);
      return *what;
    });
    if (!whole || what || run.traces[i].output != expected[i].output) continue;
    examination.expect_of_draft(run.traces[i].final_draft == expected[i].final_draft, [&] {
      Failure failure = make_failure(one.variation, -1, -1, "the draft has observed the same text",
                                     "the draft has another state at the end",
                                     {"the text is the same in both", "a draft's state depends on the text only"});
      failure.run = name_of_run(i);
      return failure;
    });
  }
}

}  // namespace draftproof
