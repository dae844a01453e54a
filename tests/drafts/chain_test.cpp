// SPDX-License-Identifier: MIT
#include "ref/drafts/chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "ref/drafts/ngram_map_k.h"
#include "tests/drafts/support.h"

namespace draftproof::chain_test {
namespace {

/// Takes some time, as the clock has it.
void take_time() {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() == start) {
  }
}

/// Reads the text only, takes time for it, and proposes nothing.
class Silent final : public TextDraft {
 public:
  using TextDraft::TextDraft;
  void observe(std::span<const Token> committed, std::span<const float> features) override {
    take_time();
    TextDraft::observe(committed, features);
  }

 private:
  void learn(std::span<const Token>, std::size_t) override {}
  void continue_text(std::span<const Token>, int, std::vector<Token>&) override { take_time(); }
  void clear() override {}
};

/// Stands for a network: proposes token 7 as often as it is asked, and fails when told to.
class Network final : public Draft {
 public:
  explicit Network(int draft_max) : draft_max_(draft_max) {}
  bool fails = false;
  int observed = 0;  // calls
  std::vector<Token> text;

  int draft_max() const override { return draft_max_; }
  std::span<const int> taps() const override { return taps_; }
  void observe(std::span<const Token> committed, std::span<const float>) override {
    take_time();
    if (fails) throw std::runtime_error("no memory");
    EXPECT_LE(committed.size(), static_cast<std::size_t>(std::max(max_chunk, 1 + draft_max_)));
    ++observed;
    text.insert(text.end(), committed.begin(), committed.end());
  }
  void propose(Token, int limit, ProposalBuilder& builder) override {
    take_time();
    for (int i = 0; i < limit; ++i) builder.add_token(7);
  }
  void forget() override { text.clear(); }

 private:
  int draft_max_;
  std::vector<int> taps_ = {1, 3};
};

class NetworkDrafter final : public Drafter {
 public:
  void observe(std::span<ObserveJob> jobs) override {
    if (pass_fails) throw std::runtime_error("no memory for the pass");
    Drafter::observe(jobs);
  }
  bool pass_fails = false;
  std::unique_ptr<Draft> open(int, int) override {
    auto draft = std::make_unique<Network>(2);
    opened.push_back(draft.get());
    return draft;
  }
  std::vector<Network*> opened;
};

std::unique_ptr<Draft> simple(int n, int m) {
  return std::make_unique<NgramMapKDraft>(m, NgramMapKSettings{.n = n, .m = m, .min_hits = 1});
}

/// n-grams of 3, then of 1, then the network.
ChainDraft chain(Network** network = nullptr) {
  std::vector<std::unique_ptr<Draft>> stages;
  stages.push_back(simple(3, 6));
  stages.push_back(simple(1, 4));
  auto last = std::make_unique<Network>(2);
  if (network != nullptr) *network = last.get();
  stages.push_back(std::move(last));
  return ChainDraft(std::move(stages));
}

std::vector<Token> proposed(Draft& draft, const std::vector<Token>& text, int limit) {
  PhiloxSource random(1);
  return propose(draft, text, limit, {}, random).tokens;
}

/// Observes all but the last token.
void read(Draft& draft, const std::vector<Token>& text) { draft.observe(std::span(text).first(text.size() - 1), {}); }

TEST(Chain, TakesTheProposalOfTheFirstStageThatHasOne) {
  struct Row {
    std::vector<Token> text;
    std::vector<Token> wanted;
  };
  for (const Row& row : {Row{{1, 2, 3, 4, 5, 1, 2, 3}, {4, 5, 1, 2, 3, 4}},  // three tokens occurred
                         Row{{1, 2, 3, 4, 5, 9, 2}, {3, 4, 5, 9}},           // one did
                         Row{{1, 2, 3, 4}, {7, 7}}}) {                       // none did
    ChainDraft draft = chain();
    read(draft, row.text);
    EXPECT_EQ(proposed(draft, row.text, 6), row.wanted);
  }
}

TEST(Chain, HasTheNeedsOfItsStages) {
  ChainDraft draft = chain();
  EXPECT_EQ(draft.draft_max(), 6);
  EXPECT_EQ(std::vector<int>(draft.taps().begin(), draft.taps().end()), (std::vector<int>{1, 3}));
  EXPECT_FALSE(draft.needs_no_snapshot());
  std::vector<std::unique_ptr<Draft>> stages;
  stages.push_back(simple(2, 3));
  stages.push_back(simple(1, 5));
  ChainDraft text(std::move(stages));
  EXPECT_EQ(text.draft_max(), 5);
  EXPECT_TRUE(text.taps().empty());
  EXPECT_TRUE(text.needs_no_snapshot());
}

TEST(Chain, AfterAnyRoundsProposesWhatANewOneProposes) {
  std::uint32_t state = 1;
  const auto below = [&](std::uint32_t end) {
    state = state * 1664525U + 1013904223U;
    return (state >> 16) % end;
  };
  for (int run = 0; run < 50; ++run) {
    ChainDraft draft = chain();
    std::vector<Token> text = {0};
    while (text.size() < 60) {
      const std::vector<Token> drafted = proposed(draft, text, 6);
      ChainDraft fresh = chain();
      read(fresh, text);
      EXPECT_EQ(proposed(fresh, text, 6), drafted);
      EXPECT_EQ(fresh.digest(), draft.digest());
      // Some draft tokens are accepted, then another token follows.
      std::vector<Token> committed = {text.back()};
      const std::size_t accepted = below(static_cast<std::uint32_t>(drafted.size()) + 1);
      for (std::size_t i = 0; i < accepted; ++i) committed.push_back(drafted[i]);
      draft.observe(committed, {});
      text.insert(text.end(), committed.begin() + 1, committed.end());
      text.push_back(static_cast<Token>(below(3)));
    }
  }
}

TEST(Chain, LetsTheStageWithACacheObserveThePromptAtOnceAndLaterTokensWhenItIsAsked) {
  Network* network = nullptr;
  ChainDraft draft = chain(&network);
  draft.observe(std::vector<Token>{1, 2, 3, 1}, {});
  EXPECT_EQ(network->observed, 1);
  EXPECT_EQ(proposed(draft, {1, 2, 3, 1, 2}, 6), (std::vector<Token>{3, 1, 2, 3}));
  draft.observe(std::vector<Token>{2, 3}, {});
  EXPECT_EQ(proposed(draft, {1, 2, 3, 1, 2, 3, 1}, 6), (std::vector<Token>{2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(network->observed, 1);
  draft.observe(std::vector<Token>{1, 2}, {});
  EXPECT_EQ(proposed(draft, {1, 2, 3, 1, 2, 3, 1, 2, 9}, 6), (std::vector<Token>{7, 7}));
  EXPECT_EQ(network->observed, 2);
  EXPECT_EQ(network->text, (std::vector<Token>{1, 2, 3, 1, 2, 3, 1, 2}));
  for (int round = 0; round < 10; ++round) draft.observe(std::vector<Token>(50, 5), {});
  EXPECT_EQ(network->observed, 2);
  draft.digest();
  EXPECT_EQ(network->text.size(), 508U);
  EXPECT_EQ(network->observed, 6) << "it is told no more at once than a pass has";
  draft.forget();
  draft.observe(std::vector<Token>{1, 2, 3, 1}, {});
  EXPECT_EQ(network->text.size(), 4U);
}

/// What a stage does takes time, and what it does not do takes none.
TEST(Chain, CountsTheTimeOfEveryStage) {
  Network* network = nullptr;
  ChainDraft draft = chain(&network);
  const DraftTimes& last = draft.times()[2];
  ASSERT_EQ(draft.times().size(), 3U);
  draft.observe(std::vector<Token>{1, 2, 3, 1}, {});
  EXPECT_TRUE(last.begin > 0 && last.draft == 0 && last.accept == 0);
  const double begin = last.begin;
  ASSERT_EQ(proposed(draft, {1, 2, 3, 1, 2}, 6), (std::vector<Token>{3, 1, 2, 3}));
  draft.observe(std::vector<Token>{2, 3}, {});
  EXPECT_TRUE(last.draft == 0 && last.accept == 0) << "another stage has proposed";
  ASSERT_EQ(proposed(draft, {1, 2, 3, 1, 2, 3, 9}, 6), (std::vector<Token>{7, 7}));
  EXPECT_TRUE(last.begin == begin && last.draft > 0 && last.accept > 0) << "asked, it observes first, then proposes";
}

TEST(Chain, CountsTheTimeOfAStageThatReadsTheTextOnly) {
  std::vector<std::unique_ptr<Draft>> stages;
  stages.push_back(std::make_unique<Silent>(3));
  stages.push_back(std::make_unique<Network>(2));
  ChainDraft draft(std::move(stages));
  const DraftTimes& silent = draft.times()[0];
  draft.observe(std::vector<Token>{1, 2}, {});
  EXPECT_TRUE(silent.begin > 0 && silent.draft == 0 && silent.accept == 0);
  const double begin = silent.begin;
  ASSERT_EQ(proposed(draft, {1, 2, 3}, 2), (std::vector<Token>{7, 7}));
  EXPECT_TRUE(silent.begin == begin && silent.draft > 0 && silent.accept == 0) << "asked first, it proposed nothing";
  draft.observe(std::vector<Token>{3}, {});
  EXPECT_TRUE(silent.begin == begin && silent.accept > 0);
}

TEST(Chain, KeepsFeaturesOfNoMoreThanItSays) {
  Network* network = nullptr;
  ChainDraft draft = chain(&network);
  proposed(draft, {1}, 6);
  const std::vector<float> features(ChainDraft::waiting_features_max / sizeof(float) / 4);  // of three tokens
  for (int round = 1; round <= 4; ++round) {
    draft.observe(std::vector<Token>{5, 5, 5}, features);
    EXPECT_TRUE(network->text.empty());
  }
  draft.observe(std::vector<Token>{6}, std::vector<float>(1));
  EXPECT_EQ(network->text.size(), 12U);
  draft.digest();
  EXPECT_EQ(network->text.size(), 13U);
}

/// Where load leaves no draft tokens the draft is not asked; then it has nothing to observe.
TEST(Chain, ThatIsNotAskedObservesThePromptOnlyAndSaysWhatItTookToCatchUp) {
  auto networks = std::make_shared<NetworkDrafter>();
  ChainDrafter drafter({networks});
  const std::unique_ptr<Draft> draft = drafter.open(100, 0);
  Network& network = *networks->opened.front();
  const auto observe = [&](std::vector<Token> committed) {
    ObserveJob job{draft.get(), committed, {}};
    drafter.observe({&job, 1});
    ASSERT_FALSE(job.error);
  };
  const auto late_seconds = [&] {
    Sampler sampler;
    PhiloxSource random(1);
    const Sampling sampling;
    const std::vector<Token> text = {4};
    ProposalBuilder builder(sampling, text, 0, 3, Purpose::target, random, sampler);
    ProposeJob job{draft.get(), 4, 2, &builder};
    drafter.propose({&job, 1});
    EXPECT_FALSE(job.error);
    return job.late_seconds;
  };
  observe({1, 2, 3});
  EXPECT_EQ(network.text.size(), 3U) << "the prompt";
  for (int round = 0; round < 3; ++round) {
    draft->begin_rounds();
    observe({4});
    EXPECT_EQ(network.text.size(), 3U);
  }
  EXPECT_GT(late_seconds(), 0);
  EXPECT_EQ(network.text, (std::vector<Token>{1, 2, 3, 4, 4, 4}));
  observe({5, 6});
  EXPECT_EQ(late_seconds(), 0) << "what the last round committed is observed for every proposal";
  EXPECT_EQ(network.text.size(), 8U);
}

TEST(Chain, ObservesARoundThatIsLongerThanTheStageWithACacheProposes) {
  Network* network = nullptr;
  std::vector<std::unique_ptr<Draft>> stages;
  stages.push_back(simple(3, 300));
  stages.push_back(std::make_unique<Network>(2));
  network = static_cast<Network*>(stages.back().get());
  ChainDraft draft(std::move(stages));
  proposed(draft, {4}, 6);
  const std::vector<Token> round(301, 4);
  draft.observe(round, {});
  draft.observe(round, {});
  draft.digest();
  EXPECT_EQ(network->text.size(), 602U);
}

TEST(Chain, ThatFailsInAPromptHasObservedNothingOfTheChunk) {
  Network* network = nullptr;
  ChainDraft draft = chain(&network);
  const std::vector<Token> prompt = {1, 2, 3, 4};
  draft.observe(prompt, {});
  network->fails = true;
  EXPECT_THROW(draft.observe(std::vector<Token>{5, 6}, {}), std::runtime_error);
  network->fails = false;
  ChainDraft fresh = chain();
  fresh.observe(prompt, {});
  EXPECT_EQ(draft.digest(), fresh.digest());
  EXPECT_EQ(network->text, prompt);
  draft.observe(std::vector<Token>{5, 6}, {});
  fresh.observe(std::vector<Token>{5, 6}, {});
  EXPECT_EQ(draft.digest(), fresh.digest());
}

/// A round that failed is no longer the last one when the text is read again.
TEST(Chain, WithATunerLearnsNothingFromReadingTheTextAgain) {
  const DraftCosts costs{.verify = {1, 1.1, 1.2}, .draft = {{0, 0.5, 0.5}}, .reading = {0}};
  const auto drafts_after = [&](bool read_again) {
    std::vector<std::unique_ptr<Draft>> stages;
    stages.push_back(std::make_unique<Network>(2));
    ChainDraft draft(std::move(stages), Tuner(costs));
    std::vector<Token> text = {1};
    int drafted = 0;
    for (int round = 0; round < 40; ++round) {
      if (read_again) {
        proposed(draft, text, 2);
        draft.forget();
        if (text.size() > 1) read(draft, text);
      }
      drafted += proposed(draft, text, 2).empty() ? 0 : 1;
      draft.observe(std::span(text).last(1), {});
      text.push_back(3);
    }
    return drafted;
  };
  EXPECT_EQ(drafts_after(true), drafts_after(false));
}

TEST(Chain, ForgetsNothingWhenAStageFails) {
  Network* network = nullptr;
  ChainDraft draft = chain(&network);
  draft.observe(std::vector<Token>{1, 2, 3, 4}, {});
  EXPECT_EQ(proposed(draft, {1, 2, 3, 4, 9}, 6), (std::vector<Token>{7, 7}));
  network->fails = true;
  draft.observe(std::vector<Token>{5, 6}, {});
  EXPECT_THROW(proposed(draft, {1, 2, 3, 4, 5, 6, 9}, 6), std::runtime_error);
  EXPECT_EQ(draft.times()[0].failed, 0);
  EXPECT_EQ(draft.times()[2].failed, 1) << "each counts its own";
  network->fails = false;
  EXPECT_EQ(proposed(draft, {1, 2, 3, 4, 5, 6, 9}, 6), (std::vector<Token>{7, 7}));
  EXPECT_EQ(network->text, (std::vector<Token>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(proposed(draft, {1, 2, 3, 4, 5, 6, 2}, 6), (std::vector<Token>{3, 4, 5, 6}));
  draft.forget();
  EXPECT_EQ(draft.digest(), chain().digest());
  EXPECT_TRUE(network->text.empty());
}

/// Proposals cost nothing, and the network's two draft tokens are accepted or not.
TEST(Chain, WithATunerAsksForWhatPaysAndObservesTheRest) {
  const DraftCosts costs{.verify = {1, 1.1, 1.2}, .draft = {{0, 0.5, 0.5}}, .reading = {0}};
  for (const bool accepted : {true, false}) {
    std::vector<std::unique_ptr<Draft>> stages;
    stages.push_back(std::make_unique<Network>(2));
    auto& network = static_cast<Network&>(*stages.front());
    ChainDraft draft(std::move(stages), Tuner(costs));
    std::vector<Token> text = {1};
    int drafted = 0;
    for (int round = 0; round < 200; ++round) {
      std::vector<Token> committed = {text.back()};
      const std::vector<Token> tokens = proposed(draft, text, 2);
      drafted += tokens.empty() ? 0 : 1;
      if (accepted) committed.insert(committed.end(), tokens.begin(), tokens.end());
      draft.observe(committed, {});
      text.insert(text.end(), committed.begin() + 1, committed.end());
      text.push_back(accepted ? 7 : 3);
    }
    EXPECT_TRUE(accepted ? drafted == 200 : drafted < 20) << drafted;
    if (!accepted) {
      EXPECT_LT(network.observed, 20);
    }
    draft.digest();
    text.pop_back();
    EXPECT_EQ(network.text, text);
  }
}

TEST(Chain, OfSeveralSequencesDraftsAndObservesEachAsAlone) {
  class SimpleDrafter final : public Drafter {
   public:
    std::unique_ptr<Draft> open(int, int) override { return simple(1, 4); }
  };
  std::vector<std::shared_ptr<Drafter>> stages;
  stages.push_back(std::make_shared<SimpleDrafter>());
  auto networks = std::make_shared<NetworkDrafter>();
  NetworkDrafter& opened = *networks;
  stages.push_back(std::move(networks));
  ChainDrafter drafter(std::move(stages));
  const std::vector<std::vector<Token>> texts = {{1, 2, 1}, {1, 2, 3}, {4, 4, 4}};
  std::vector<std::unique_ptr<Draft>> drafts;
  std::vector<ObserveJob> told;
  for (const auto& text : texts) {
    drafts.push_back(drafter.open(100, 0));
    told.push_back({drafts.back().get(), std::span(text).first(2), {}});
  }
  opened.opened[1]->fails = true;
  drafter.observe(told);
  EXPECT_TRUE(!told[0].error && told[1].error && !told[2].error);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(drafts[i]->times()[1].failed, i == 1 ? 1 : 0);
  opened.opened[1]->fails = false;
  told[1].error = nullptr;
  drafter.observe(std::span(&told[1], 1));
  EXPECT_FALSE(told[1].error);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(opened.opened[i]->text.size(), 2U);

  // A pass that fails as a whole leaves every one as it was.
  std::vector<Fingerprint> before;
  for (const auto& draft : drafts) before.push_back(draft->digest());
  const std::vector<Token> more = {1, 2};
  for (ObserveJob& job : told) job.committed = more;
  opened.pass_fails = true;
  drafter.observe(told);
  opened.pass_fails = false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(told[i].error);
    EXPECT_EQ(drafts[i]->digest(), before[i]);
  }

  Sampler sampler;
  PhiloxSource random(1);
  const Sampling sampling;
  std::vector<ProposalBuilder> builders;
  for (const auto& text : texts) builders.emplace_back(sampling, text, 0, 3, Purpose::target, random, sampler);
  std::vector<ProposeJob> jobs;
  for (std::size_t i = 0; i < texts.size(); ++i) jobs.push_back({drafts[i].get(), texts[i].back(), 3, &builders[i]});
  drafter.propose(jobs);
  EXPECT_TRUE(!jobs[0].error && !jobs[1].error && !jobs[2].error);
  EXPECT_EQ(builders[0].proposal().tokens, (std::vector<Token>{2, 1, 2}));
  EXPECT_EQ(builders[1].proposal().tokens, (std::vector<Token>{7, 7}));
  EXPECT_EQ(builders[2].proposal().tokens, (std::vector<Token>{4, 4, 4}));

  // What they do in one pass counts for each that takes part.
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const DraftTimes& network = drafts[i]->times()[1];
    EXPECT_GT(network.begin, 0);
    EXPECT_EQ(network.draft > 0, i == 1);
  }
}

}  // namespace
}  // namespace draftproof::chain_test
