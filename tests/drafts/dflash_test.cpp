// SPDX-License-Identifier: MIT
// Uses the trained models of the repository; other tests compare the network with the authors' outputs.
#include "ref/drafts/dflash.h"
#include "ref/models/models.h"
#include "tests/drafts/support.h"

#include <gtest/gtest.h>

#include <filesystem>


namespace draftproof::dflash_test {
namespace {

class DFlash : public ::testing::Test {
 protected:
  static constexpr int length = 96;  // longer than the network's window of 64

  DFlash()
      : target_(load_model(Checkpoint(models() / "tale-target"), best_kernels())),
        network_(Checkpoint(models() / "tale-dflash"), *target_, best_kernels()) {
    set_threads(1);  // models are small; the bits do not depend on the threads
    for (int i = 0; i < length + 1; ++i) text_.push_back(3 + (i * 37) % 500);
    const auto cache = target_->new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    Outputs outputs;
    forward_alone(*target_,
                  {.cache = cache.get(),
                   .tokens = std::span(text_).first(length),
                   .taps = network_.config().taps,
                   .logits_from = length},
                  outputs);
    features_ = outputs.features;
    width_ = features_.size() / length;
  }

  static std::filesystem::path models() { return std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models"; }

  /// Observes positions [from, from + rows).
  void observe(DFlashDraft& draft, int from, int rows) const {
    const auto first = static_cast<std::size_t>(from);
    const auto count = static_cast<std::size_t>(rows);
    draft.observe(std::span(text_).subspan(first, count),
                  std::span(features_).subspan(first * width_, count * width_));
  }
  std::span<const Token> committed(int observed) const {
    return std::span(text_).first(static_cast<std::size_t>(observed) + 1);
  }

  std::unique_ptr<Model> target_;
  DFlashNetwork network_;
  std::vector<Token> text_;
  std::vector<float> features_;
  std::size_t width_ = 0;
};

TEST_F(DFlash, DependsOnTheObservedTextAndNothingElse) {
  PhiloxSource random(3);
  const Sampling sampling{.temperature = 1};
  DFlashDraft whole(network_, length + 8);
  observe(whole, 0, length);
  const Proposal expected = propose(whole, committed(length), 7, sampling, random);
  for (std::uint32_t number = 0; number < 6; ++number) {
    DFlashDraft draft(network_, length + 8);
    int done = 0;
    for (const int run : cuts(length, number == 0 ? 1 : 8 * static_cast<int>(number), number)) {
      const Fingerprint before = draft.digest();
      if (number != 1) propose(draft, committed(done), 1 + (done + run) % 7, sampling, random);
      ASSERT_EQ(draft.digest(), before) << "a proposal leaves a trace";
      observe(draft, done, run);
      done += run;
    }
    ASSERT_EQ(draft.digest(), whole.digest());
    const Proposal proposal = propose(draft, committed(length), 7, sampling, random);
    ASSERT_EQ(proposal.tokens, expected.tokens);
    ASSERT_EQ(proposal.drawn_from, expected.drawn_from);
  }
}

TEST_F(DFlash, TwoSequencesOfOneNetworkAreIndependent) {
  PhiloxSource random(3);
  DFlashDraft alone(network_, length + 8);
  observe(alone, 0, 20);
  DFlashDraft one(network_, length + 8), other(network_, length + 8);
  for (int i = 0; i < 20; ++i) {
    observe(one, i, 1);
    observe(other, 2 * i, 2);
    propose(other, committed(2 * i + 2), 7, {}, random);
  }
  EXPECT_EQ(one.digest(), alone.digest());
  EXPECT_NE(one.digest(), other.digest());
  EXPECT_EQ(propose(one, committed(20), 7, {}, random).tokens, propose(alone, committed(20), 7, {}, random).tokens);
}

TEST_F(DFlash, RecordsTheDistributionThatWasDrawnFrom) {
  PhiloxSource random(9);
  DFlashDraft draft(network_, length + 8);
  observe(draft, 0, 30);
  for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1},
                                   Sampling{.temperature = 0.7F, .top_k = 20, .presence_penalty = 2}}) {
    for (const Purpose noise : {Purpose::target, Purpose::draft}) {
      const Proposal proposal = propose(draft, committed(30), 7, sampling, random, noise, 4);
      expect_redrawn(proposal, 31, noise, 4, random);
    }
  }
}

TEST_F(DFlash, ProposesTheRequestedNumberOfDraftTokensAndAtMostABlockWithoutTheAnchor) {
  PhiloxSource random(9);
  DFlashDraft draft(network_, length + 8);
  EXPECT_EQ(draft.draft_max(), 7);
  EXPECT_EQ(std::vector<int>(draft.taps().begin(), draft.taps().end()), network_.config().taps);
  for (int limit = 1; limit <= 7; ++limit) {
    EXPECT_EQ(propose(draft, committed(0), limit, {}, random).size(), limit) << "an empty context will do";
  }
  EXPECT_DEATH(propose(draft, committed(0), 8, {}, random), "at most draft_max");
}

TEST_F(DFlash, ProposesUpToTheLastPositionOfItsCapacity) {
  PhiloxSource random(9);
  DFlashDraft draft(network_, 32);
  observe(draft, 0, 31);
  EXPECT_EQ(propose(draft, committed(31), 7, {}, random).size(), 7);
  observe(draft, 31, 1);
}

TEST_F(DFlash, FeaturesThatDoNotFitTheTokensAbort) {
  DFlashDraft draft(network_, length + 8);
  EXPECT_DEATH(draft.observe(std::span(text_).first(2), std::span(features_).first(width_)), "one row of taps");
}

}  // namespace
}  // namespace draftproof::dflash_test
