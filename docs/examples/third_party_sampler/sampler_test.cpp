// SPDX-License-Identifier: MIT
// Proves the distribution of the toy sampler. All random draws are enumerated instead of sampled, so a test that passes
// is a proof for these weights, and one that fails names the token that is too frequent.
#include "sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include <draftproof/oracle/matchers.h>
#include <draftproof/ref/decoding/decoder.h>
#include <draftproof/ref/drafts/model_draft.h>
#include <draftproof/ref/models/hash.h>

namespace {

using draftproof::HasExactDistribution;
using draftproof::IsLosslessUnder;
using testing::Not;

using Step = int (*)(const toy::Weights&, const toy::Weights&, const toy::Coin&);

/// A step of the toy in the form that the matcher needs: every draw comes from the RandomSource.
auto sampler(Step step, const toy::Weights& target, const toy::Weights& draft) {
  return [=](draftproof::RandomSource& random) {
    draftproof::Coins coins(random);
    return step(target, draft, [&](std::uint64_t sides) { return coins.below(sides); });
  };
}

/// Every pair of weights of three tokens that sum to four.
template <class Use>
void for_every_pair(const Use& use) {
  std::vector<toy::Weights> all;
  for (std::uint64_t a = 0; a <= 4; ++a) {
    for (std::uint64_t b = 0; a + b <= 4; ++b) all.push_back({a, b, 4 - a - b});
  }
  for (const toy::Weights& target : all) {
    for (const toy::Weights& draft : all) use(target, draft);
  }
}

TEST(Toy, KeepsTheDistributionOfTheTargetWhateverTheDraft) {
  for_every_pair([](const toy::Weights& target, const toy::Weights& draft) {
    EXPECT_THAT(sampler(toy::speculative, target, draft), HasExactDistribution(target));
  });
}

TEST(Toy, MadeCarelesslyIsRefusedWithTheTokenThatComesTooOften) {
  const toy::Weights target{2, 1, 1};
  const toy::Weights draft{1, 1, 2};
  const auto careless = sampler(toy::careless, target, draft);
  EXPECT_THAT(careless, Not(HasExactDistribution(target)));

  testing::StringMatchResultListener said;
  testing::ExplainMatchResult(HasExactDistribution(target), careless, &said);
  std::cout << "the careless sampler is one " << said.str() << "\n";
  EXPECT_EQ(said.str(),
            "whose distribution over 12 paths is P(0) = 3/8, P(1) = 5/16, P(2) = 5/16: P(0) is 3/8 where it should be "
            "1/2; total variation 1/8");
}

// A whole run of an engine, here the library's own over a model for proofs: its trace is compared with plain decoding.
TEST(Engine, IsLosslessUnderItsTarget) {
  const auto target = draftproof::make_hash_model({.vocabulary = 8});
  const auto other = draftproof::make_hash_model({.vocabulary = 8, .perturbation = 1});
  draftproof::Request request;
  request.prompt = {1, 2, 3};
  request.sampling.temperature = 1;
  request.max_new_tokens = 32;
  draftproof::ModelDraft draft(*other, 35, 3);
  draftproof::PhiloxSource random(0);
  draftproof::Decoder decoder(*target, draft, draftproof::matching, random, request, {.draft_max = 3},
                              draftproof::Recording::digests);
  decoder.run();
  EXPECT_THAT(decoder.trace(), IsLosslessUnder(*target));

  draftproof::Trace forged = decoder.trace();
  forged.rounds.at(1).emitted.back() ^= 1;
  EXPECT_THAT(forged, Not(IsLosslessUnder(*target)));
}

}  // namespace
