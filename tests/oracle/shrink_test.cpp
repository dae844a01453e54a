// SPDX-License-Identifier: MIT
#include "oracle/shrink/shrink.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "zoo/zoo_subject.h"

namespace draftproof::shrink_test {
namespace {

/// Emits a wrong token at one position of the text, if the case is large enough in every respect.
class Wrong final : public Subject {
 public:
  explicit Wrong(std::function<bool(const Request&, const Variation&)> when) : when_(std::move(when)) {}
  Trace run_with_callback(const Request& request, const Variation& variation, RandomSource& random,
                          const OnRound& on_round) override {
    ++runs;
    Trace trace = sound_.run_with_callback(request, variation, random, on_round);
    if (trace.output.size() > 2 && when_(request, variation)) trace.output[2] ^= 1;
    return trace;
  }
  Model& target(const Variation& variation) override { return sound_.target(variation); }
  std::string numerics(const Variation& variation) override { return sound_.numerics(variation); }

  int runs = 0;

 private:
  zoo::ZooSubject sound_{{.vocabulary = 6, .levels = 3, .seed = 5}};
  std::function<bool(const Request&, const Variation&)> when_;
};

Case everything() {
  Case failing;
  failing.check = "tokens_equal";
  failing.request.prompt = {1, 2, 3, 4, 1, 2, 3, 4, 5};
  failing.request.sampling = {.temperature = 0.8F,
                              .top_k = 4,
                              .top_p = 0.9F,
                              .min_p = 0.01F,
                              .repeat_penalty = 1.2F,
                              .presence_penalty = 0.25F,
                              .frequency_penalty = 0.125F,
                              .repeat_last_n = 6,
                              .top_n_sigma = 3,
                              .typical_p = 0.9F,
                              .dynatemp_range = 0.25F,
                              .dynatemp_exponent = 2,
                              .xtc_probability = 0.5F,
                              .xtc_threshold = 0.2F,
                              .dry_multiplier = 1,
                              .dry_base = 2,
                              .dry_allowed_length = 1,
                              .dry_penalty_last_n = 9,
                              .mirostat = 1,
                              .mirostat_tau = 3,
                              .mirostat_eta = 0.2F,
                              .adaptive_target = 0.5F,
                              .adaptive_decay = 0.5F,
                              .order = llama_cpp_order,
                              .dry_breakers = {2}};
  failing.request.max_new_tokens = 24;
  failing.request.sequence = 3;
  failing.seed = 7;
  for (const char* draft : {"none", "perturbed", "always-reject"}) {
    for (const int draft_max : {2, 6}) {
      Variation variation;
      variation.draft = draft;
      variation.draft_max = draft_max;
      variation.threads = 2;
      variation.prefill_chunk = 3;
      variation.verification = Verification::serial;
      failing.variations.push_back(variation);
    }
  }
  return failing;
}

Shrunken shrunken(Wrong& subject, const Case& failing, int trials_max = 500) {
  const Finding found = examined(subject, failing);
  EXPECT_EQ(found.outcome, Outcome::fail) << found.message;
  return shrink(failing, found, trials_max, [&](const Case& smaller) { return examined(subject, smaller); });
}

TEST(Shrink, KeepsOnlyWhatIsNeeded) {
  Wrong always([](const Request&, const Variation&) { return true; });
  const Shrunken small = shrunken(always, everything());
  EXPECT_EQ(small.smallest.request.prompt.size(), 1U);
  EXPECT_EQ(small.smallest.request.max_new_tokens, 3) << "the third token is the wrong one";
  EXPECT_EQ(small.smallest.request.sampling, Sampling{});
  EXPECT_EQ(small.smallest.request.sequence, 0);
  ASSERT_EQ(small.smallest.variations.size(), 1U);
  const Variation& variation = small.smallest.variations[0];
  EXPECT_EQ(variation.threads, 1);
  EXPECT_EQ(variation.prefill_chunk, 0);
  EXPECT_EQ(variation.verification, Verification::batched);
  EXPECT_EQ(small.finding.check, "tokens_equal");
  EXPECT_EQ(examined(always, small.smallest).message, small.finding.message);
}

TEST(Shrink, KeepsWhatTheFailureNeeds) {
  Wrong picky([](const Request& request, const Variation& variation) {
    const auto& prompt = request.prompt;
    return std::count(prompt.begin(), prompt.end(), 4) > 0 && std::count(prompt.begin(), prompt.end(), 2) > 0 &&
           request.sampling.min_p > 0 && variation.draft == "always-reject" && variation.draft_max >= 4 &&
           variation.verification == Verification::serial;
  });
  const Shrunken small = shrunken(picky, everything());
  EXPECT_EQ(small.smallest.request.prompt.size(), 2U);
  EXPECT_GT(small.smallest.request.sampling.min_p, 0);
  EXPECT_EQ(small.smallest.request.sampling.top_k, 0);
  EXPECT_EQ(small.smallest.request.sampling.repeat_last_n, Sampling{}.repeat_last_n);
  ASSERT_EQ(small.smallest.variations.size(), 1U);
  EXPECT_EQ(small.smallest.variations[0].draft, "always-reject");
  EXPECT_EQ(small.smallest.variations[0].draft_max, 4);
  EXPECT_EQ(small.smallest.variations[0].verification, Verification::serial);
}

TEST(Shrink, LeavesOutEveryParameterButTheOneThatIsNeeded) {
  Case failing = everything();
  failing.request.sampling.logit_bias = {{2, 0.5F}};
  for_each_sampling_field([&](const auto& needed) {
    const auto value = failing.request.sampling.*needed.member;
    ASSERT_NE(value, Sampling{}.*needed.member) << needed.name;
    Wrong picky([&](const Request& request, const Variation&) { return request.sampling.*needed.member == value; });
    Sampling expected;
    expected.*needed.member = value;
    EXPECT_EQ(shrunken(picky, failing).smallest.request.sampling, expected) << needed.name;
  });
}

TEST(Shrink, KeepsTwoVariationsWhereTheFailureIsBetweenTwo) {
  // No draft with state: alone, its run has nothing to be compared with.
  Wrong one_draft([](const Request&, const Variation& variation) { return variation.draft == "none"; });
  Case failing = everything();
  failing.check = "config_invariance";
  const Shrunken small = shrunken(one_draft, failing);
  EXPECT_EQ(small.smallest.variations.size(), 2U);
  EXPECT_EQ(small.finding.outcome, Outcome::fail);
}

TEST(Shrink, StopsAfterTheGivenTrialsAndStillFails) {
  for (const int trials : {0, 1, 5}) {
    Wrong always([](const Request&, const Variation&) { return true; });
    const Shrunken small = shrunken(always, everything(), trials);
    EXPECT_LE(small.trials, trials);
    EXPECT_EQ(examined(always, small.smallest).outcome, Outcome::fail);
  }
}

TEST(Shrink, IgnoresTrialsAfterAnInterrupt) {
  Wrong always([](const Request&, const Variation&) { return true; });
  const Case failing = everything();
  const Finding found = examined(always, failing);
  const auto ask = [&](const Case& smaller) { return examined(always, smaller); };
  const Shrunken same = shrink(failing, found, 500, ask, [] { return false; });
  EXPECT_EQ(same.smallest.request.prompt, failing.request.prompt);
  EXPECT_EQ(same.trials, 0);
}

}  // namespace
}  // namespace draftproof::shrink_test
