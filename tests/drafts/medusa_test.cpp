// SPDX-License-Identifier: MIT
// Uses the trained models of the repository; other tests compare the heads with torch's.
#include "ref/drafts/medusa.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "ref/models/models.h"
#include "tests/drafts/support.h"

namespace draftproof::medusa_test {
namespace {

class Medusa : public ::testing::Test {
 protected:
  static constexpr int length = 60;

  Medusa()
      : target_(load_model(Checkpoint(models() / "tale-target"), best_kernels())),
        heads_(Checkpoint(models() / "tale-medusa"), *target_, best_kernels()) {
    set_threads(1);  // models are small; the bits do not depend on the threads
    for (int i = 0; i < length + 1; ++i) text_.push_back(3 + (i * 37) % 500);
    const auto cache = target_->new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    Outputs outputs;
    forward_alone(
        *target_,
        {.cache = cache.get(), .tokens = std::span(text_).first(length), .taps = heads_.taps(), .logits_from = length},
        outputs);
    features_ = outputs.features;
  }

  static std::filesystem::path models() { return std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models"; }

  std::span<const float> feature(int position) const {
    const auto width = static_cast<std::size_t>(heads_.width());
    return std::span(features_).subspan(static_cast<std::size_t>(position) * width, width);
  }
  /// Observes positions [from, from + rows).
  void observe(MedusaDraft& draft, int from, int rows) const {
    const auto width = static_cast<std::size_t>(heads_.width());
    draft.observe(
        std::span(text_).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(rows)),
        std::span(features_).subspan(static_cast<std::size_t>(from) * width, static_cast<std::size_t>(rows) * width));
  }
  std::span<const Token> committed(int observed) const {
    return std::span(text_).first(static_cast<std::size_t>(observed) + 1);
  }

  std::unique_ptr<Model> target_;
  MedusaHeads heads_;
  std::vector<Token> text_;
  std::vector<float> features_;
};

TEST_F(Medusa, DrawsEachTokenFromTheRowOfItsHeadOfTheLastFeature) {
  PhiloxSource random(3);
  MedusaDraft draft(heads_, length + 8);
  observe(draft, 0, 30);
  MedusaHeads::Text text = {feature(29), heads_.count()};
  heads_.compute(std::span(&text, 1));
  const std::vector<float> logits(text.logits.begin(), text.logits.end());
  const auto vocabulary = static_cast<std::size_t>(target_->vocabulary());
  for (const Sampling& sampling :
       {Sampling{}, Sampling{.temperature = 1}, Sampling{.temperature = 0.7F, .top_k = 20}}) {
    for (const Purpose noise : {Purpose::target, Purpose::draft}) {
      const Proposal proposal = propose(draft, committed(30), heads_.count(), sampling, random, noise, 4);
      ASSERT_EQ(proposal.size(), heads_.count());
      expect_redrawn(proposal, 31, noise, 4, random);
      for (std::size_t i = 0; i < proposal.drawn_from.size(); ++i) {
        const std::span<const float> row = std::span(logits).subspan(i * vocabulary, vocabulary);
        EXPECT_EQ(proposal.drawn_from[i], compute_distribution(row, sampling, {}));
      }
    }
  }
}

TEST_F(Medusa, DependsOnTheObservedTextAndNothingElse) {
  PhiloxSource random(3);
  const Sampling sampling{.temperature = 1};
  MedusaDraft whole(heads_, length + 8);
  observe(whole, 0, length);
  const Proposal expected = propose(whole, committed(length), heads_.count(), sampling, random);
  for (std::uint32_t number = 0; number < 6; ++number) {
    MedusaDraft draft(heads_, length + 8);
    int done = 0;
    for (const int run : cuts(length, 1 + 8 * static_cast<int>(number), number)) {
      const Fingerprint before = draft.digest();
      propose(draft, committed(done), 1 + (done + run) % heads_.count(), sampling, random);
      ASSERT_EQ(draft.digest(), before) << "a proposal leaves a trace";
      observe(draft, done, run);
      done += run;
    }
    ASSERT_EQ(draft.digest(), whole.digest());
    EXPECT_EQ(draft.positions()[0].held, length);
    ASSERT_EQ(propose(draft, committed(length), heads_.count(), sampling, random).tokens, expected.tokens);
    EXPECT_EQ(draft.positions()[0].anchor, length);
  }
}

TEST_F(Medusa, ProposesAsManyTokensAsAreAskedForAndNothingWithoutAFeature) {
  PhiloxSource random(9);
  MedusaDraft draft(heads_, length + 8);
  EXPECT_EQ(draft.draft_max(), heads_.count());
  EXPECT_EQ(draft.taps().front(), target_->layers() - 1);
  EXPECT_EQ(propose(draft, committed(0), 2, {}, random).size(), 0) << "no position was read";
  observe(draft, 0, 1);
  const Proposal all = propose(draft, committed(1), heads_.count(), {}, random);
  for (int limit = 1; limit <= heads_.count(); ++limit) {
    const Proposal some = propose(draft, committed(1), limit, {}, random);
    EXPECT_EQ(some.size(), limit);
    EXPECT_TRUE(std::equal(some.tokens.begin(), some.tokens.end(), all.tokens.begin()));
  }
  EXPECT_DEATH(propose(draft, committed(1), heads_.count() + 1, {}, random), "at most draft_max");
}

TEST_F(Medusa, ATreeHasTheMostProbablePathsNamedWithCertainty) {
  PhiloxSource random(9);
  const Sampling sampling{.temperature = 1};
  MedusaDraft chain(heads_, length + 8);
  MedusaDraft tree(heads_, length + 8, 12);
  observe(chain, 0, 40);
  observe(tree, 0, 40);
  const Proposal best = propose(chain, committed(40), heads_.count(), {}, random);
  const Proposal paths = propose(tree, committed(40), 12, sampling, random);
  EXPECT_EQ(paths.size(), 12);
  EXPECT_EQ(paths.tokens.front(), best.tokens.front()) << "the most probable token comes first";
  EXPECT_GT(std::set<int>(paths.depths.begin(), paths.depths.end()).size(), 1U);
  EXPECT_LE(*std::ranges::max_element(paths.depths), heads_.count() - 1);
  for (const Distribution& q : paths.drawn_from) EXPECT_TRUE(q.is_point());
}

TEST_F(Medusa, EndsBeforeTheFirstHeadThatIsNotSureEnough) {
  PhiloxSource random(9);
  const Sampling sampling{.temperature = 1};
  std::set<int> lengths;
  for (int observed = 1; observed < 40; ++observed) {
    MedusaDraft always(heads_, length + 8);
    MedusaDraft draft(heads_, length + 8, 0, MinProbability(0.2));
    observe(always, 0, observed);
    observe(draft, 0, observed);
    const Proposal all = propose(always, committed(observed), heads_.count(), sampling, random);
    const Proposal proposal = propose(draft, committed(observed), heads_.count(), sampling, random);
    int expected = 0;
    for (; expected < all.size(); ++expected) {  // at temperature 1 a row and what it is drawn from are one
      const std::vector<std::uint64_t> weights = all.drawn_from[static_cast<std::size_t>(expected)].weights();
      if (static_cast<double>(*std::ranges::max_element(weights)) < 0.2 * double(Distribution::total)) break;
    }
    ASSERT_EQ(proposal.size(), expected);
    lengths.insert(expected);
  }
  EXPECT_GT(lengths.size(), 1U);
}

TEST_F(Medusa, TextsOfOnePassProposeWhatTheyProposeAlone) {
  PhiloxSource random(5);
  MedusaDrafter drafter(std::make_unique<MedusaHeads>(Checkpoint(models() / "tale-medusa"), *target_, best_kernels()));
  std::vector<std::unique_ptr<Draft>> drafts;
  std::vector<std::vector<Token>> alone;
  const Sampling sampling{.temperature = 1};
  for (int observed = 0; observed < 4; ++observed) {  // the first has nothing to go on from
    drafts.push_back(drafter.open(length, 0));
    auto& draft = static_cast<MedusaDraft&>(*drafts.back());
    if (observed > 0) observe(draft, 0, 5 * observed);
    const int limit = 1 + observed % heads_.count();
    alone.push_back(propose(draft, committed(5 * observed), limit, sampling, random).tokens);
  }
  std::vector<Sampler> samplers(alone.size());
  std::vector<std::unique_ptr<ProposalBuilder>> builders;
  std::vector<ProposeJob> jobs;
  for (int observed = 0; observed < 4; ++observed) {
    const std::span<const Token> text = committed(5 * observed);
    builders.push_back(std::make_unique<ProposalBuilder>(sampling, text, 0, static_cast<int>(text.size()),
                                                         Purpose::target, random, samplers[builders.size()]));
    jobs.push_back({drafts[static_cast<std::size_t>(observed)].get(), text.back(), 1 + observed % heads_.count(),
                    builders.back().get()});
  }
  drafter.propose(jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(jobs[i].error, nullptr);
    EXPECT_EQ(builders[i]->proposal().tokens, alone[i]);
  }
}

}  // namespace
}  // namespace draftproof::medusa_test
