// SPDX-License-Identifier: MIT
// Lets every single allocation of a run fail: at any point, caches, draft and output stay consistent and the run can be
// continued.
#include <gtest/gtest.h>

#include "tests/decoding/support.h"
#include "tests/sanitized.h"
#include "tests/scarce_memory.h"

namespace draftproof::memory_test {
namespace {

struct Outcome {
  std::vector<Token> output;
  std::vector<Token> received;
  int failures = 0;
};

/// One run in which the allocation after `granted` others fails (-1: none). Continues after the failure.
void run_short_of_memory(Model& target, Model& perturbed, const Asked& request, const Rule& rule, Recording recording,
                         long granted, Outcome& outcome) {
  const int capacity = static_cast<int>(request.prompt.size()) + request.max_new_tokens;
  WatchedDraft draft(std::make_unique<ModelDraft>(perturbed, capacity, request.draft_max));
  PhiloxSource random(5);
  Decoder decoder(target, draft, rule, random, request, request, recording);
  std::vector<Token> received;
  received.reserve(static_cast<std::size_t>(request.max_new_tokens));
  const RoundCallback watch{[&](const Trace& trace) {
    const std::vector<Token>& emitted = trace.rounds.back().emitted;
    received.insert(received.end(), emitted.begin(), emitted.end());
    return Next::go_on;
  }};
  outcome.failures = 0;
  test::allocations_left = granted;
  test::failures_left = 1;
  try {
    decoder.run(watch);
    test::allocations_left = -1;
  } catch (const std::bad_alloc&) {
    outcome.failures = 1;
    std::vector<Token> text = request.prompt;
    text.insert(text.end(), decoder.trace().output.begin(), decoder.trace().output.end());
    const auto length = static_cast<std::size_t>(decoder.cache().length());
    if (length + 1 < request.prompt.size()) {
      ASSERT_TRUE(decoder.trace().output.empty());
    } else {
      ASSERT_EQ(length + 1, text.size());
    }
    text.resize(length);
    ASSERT_EQ(draft.observed(), text);
    ASSERT_EQ(decoder.cache().digest(), cache_after(target, text));
    ASSERT_EQ(draft.digest(), cache_after(perturbed, text));
    ASSERT_EQ(recounted(decoder.trace()).accepted, decoder.trace().statistics.accepted);
    decoder.run(watch);
  }
  ASSERT_EQ(decoder.cache().length(), static_cast<int>(request.prompt.size() + decoder.trace().output.size()) - 1);
  outcome.output = decoder.trace().output;
  outcome.received = received;
}

TEST(Memory, RunningOutAtAnyAllocationLeavesCacheDraftAndOutputConsistent) {
  if (test::threads_sanitized) GTEST_SKIP() << "the thread sanitizer has operators new of its own";
  const auto target = make_hash_model({.vocabulary = 5, .levels = 3, .seed = 3});
  const auto perturbed =
      make_hash_model({.vocabulary = 5, .levels = 3, .seed = 3, .perturbation = 77, .disagreement = 2});
  std::vector<Token> prompt;
  for (int i = 0; i < 150; ++i) prompt.push_back(i % 5);
  int failures = 0;
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1, .presence_penalty = 0.5F}}) {
    for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
      for (const Recording recording : {Recording::counts, Recording::digests}) {
        Asked request = asked(prompt, 8, 3, sampling);
        Outcome whole;
        run_short_of_memory(*target, *perturbed, request, **rule, recording, -1, whole);
        for (long granted = 0;; ++granted) {
          ASSERT_LT(granted, 10'000) << "a run of eight tokens allocates only so often";
          Outcome outcome;
          run_short_of_memory(*target, *perturbed, request, **rule, recording, granted, outcome);
          if (HasFatalFailure()) FAIL() << "after " << granted << " allocations, " << (*rule)->name;
          ASSERT_EQ(outcome.output, whole.output) << "after " << granted << " allocations, " << (*rule)->name;
          EXPECT_TRUE(recording == Recording::digests || outcome.received == outcome.output);
          failures += outcome.failures;
          if (outcome.failures == 0) break;
        }
      }
    }
  }
  EXPECT_GT(failures, 500);
}

}  // namespace
}  // namespace draftproof::memory_test
