// SPDX-License-Identifier: MIT
#include "ref/drafts/model_draft.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <stdexcept>

#include "ref/models/hash.h"
#include "tests/drafts/support.h"

namespace draftproof::model_draft_test {
namespace {

const std::vector<Sampling> samplings = {
    {}, {.temperature = 1}, {.temperature = 0.7F, .top_k = 3, .repeat_penalty = 1.4F, .frequency_penalty = 0.2F}};

TEST(ModelDraft, DependsOnTheObservedTextAndNothingElse) {
  const auto model = make_hash_model({.vocabulary = 7});
  const std::vector<Token> text = some_text(60);
  PhiloxSource random(3);
  ModelDraft whole(*model, 80, 4);
  whole.observe(std::span(text).first(59), {});
  const Proposal expected = propose(whole, text, 4, samplings[1], random);
  for (std::uint32_t number = 0; number < 200; ++number) {
    ModelDraft draft(*model, 80, 4);
    std::size_t done = 0;
    for (const int run : cuts(59, 1 + static_cast<int>(number % 20), number)) {
      const Fingerprint before = draft.digest();
      const auto sampling = samplings[number % samplings.size()];
      propose(draft, std::span(text).first(done + 1), 1 + static_cast<int>(number % 4), sampling, random);
      ASSERT_EQ(draft.digest(), before) << "a proposal leaves a trace";
      draft.observe(std::span(text).subspan(done, static_cast<std::size_t>(run)), {});
      done += static_cast<std::size_t>(run);
    }
    ASSERT_EQ(draft.digest(), whole.digest());
    const Proposal proposal = propose(draft, text, 4, samplings[1], random);
    ASSERT_EQ(proposal.tokens, expected.tokens);
    ASSERT_EQ(proposal.drawn_from, expected.drawn_from);
  }
}

/// Rounds of which the text takes any part of the proposal. Nothing looks at the draft's state in between.
TEST(ModelDraft, AfterAnyRoundsProposesAndHoldsWhatANewOneDoes) {
  const auto model = make_hash_model({.vocabulary = 7});
  PhiloxSource random(3);
  for (std::uint32_t number = 0; number < 100; ++number) {
    std::mt19937 numbers(number);
    const auto below = [&](int bound) { return static_cast<int>(numbers() % static_cast<unsigned>(bound)); };
    ModelDraft draft(*model, 120, 4);
    std::vector<Token> text = some_text(1 + below(20));
    if (text.size() > 1) draft.observe(std::span(text).first(text.size() - 1), {});
    for (int round = 0; round < 12; ++round) {
      std::vector<Token> committed = {text.back()};
      if (below(4) > 0) {  // else it is not asked
        const Proposal proposal = propose(draft, text, 1 + below(4), samplings[1], random);
        const int accepted = below(proposal.size() + 1);
        committed.insert(committed.end(), proposal.tokens.begin(), proposal.tokens.begin() + accepted);
        if (accepted > 0 && below(3) == 0) committed.back() = (committed.back() + 1) % 7;  // another token after all
      }
      draft.observe(committed, {});
      text.insert(text.end(), committed.begin() + 1, committed.end());
      text.push_back(below(7));
      const DraftPositions positions = draft.positions().at(0);
      ASSERT_EQ(positions.held + positions.unread, static_cast<int>(text.size()) - 1);
    }
    ModelDraft fresh(*model, 120, 4);
    fresh.observe(std::span(text).first(text.size() - 1), {});
    const Proposal expected = propose(fresh, text, 4, samplings[1], random);
    const Proposal proposal = propose(draft, text, 4, samplings[1], random);
    ASSERT_EQ(proposal.tokens, expected.tokens);
    ASSERT_EQ(proposal.drawn_from, expected.drawn_from);
    ASSERT_EQ(draft.digest(), fresh.digest());
    ASSERT_EQ(draft.positions(), fresh.positions()) << "nothing is unread once it was looked at";
    ASSERT_EQ(draft.positions().at(0).held, static_cast<int>(text.size()) - 1);
  }
}

TEST(ModelDraft, ReadsNoRowTwiceAndNoneInAPassOfItsOwn) {
  TableModel model(3, [](std::span<const Token> text) {
    return std::vector<float>{static_cast<float>(text.size() % 3), 1, 1};
  });
  int passes = 0;
  int rows = 0;
  model.written = [&](int of_pass) {
    ++passes;
    rows += of_pass;
  };
  PhiloxSource random(1);
  ModelDraft draft(model, 60, 4);
  std::vector<Token> text = {0, 1, 2, 0, 1, 1, 0, 2, 2};
  draft.observe(std::span(text).first(8), {});
  EXPECT_EQ(passes, 1) << "a prompt is read at once";
  EXPECT_EQ(rows, 8);
  for (int accepted = 0; accepted <= 4; ++accepted) {
    passes = rows = 0;
    const Proposal proposal = propose(draft, text, 4, {}, random);
    EXPECT_EQ(passes, 4);
    EXPECT_EQ(rows, 4) << "the rounds before left nothing to read, as not all their draft tokens were accepted";
    std::vector<Token> committed = {text.back()};
    committed.insert(committed.end(), proposal.tokens.begin(), proposal.tokens.begin() + accepted);
    draft.observe(committed, {});
    EXPECT_EQ(passes, 4) << "what was accepted is there already";
    text.insert(text.end(), committed.begin() + 1, committed.end());
    text.push_back(2);
  }
  passes = rows = 0;
  propose(draft, text, 4, {}, random);
  EXPECT_EQ(passes, 4);
  EXPECT_EQ(rows, 5) << "with the last draft token, when all were accepted";
}

TEST(ModelDraft, DistinguishesDifferentTexts) {
  const auto model = make_hash_model({.vocabulary = 7});
  const std::vector<Token> text = {1, 2, 3};
  const std::vector<Token> other = {1, 3, 2};
  ModelDraft a(*model, 10, 2), b(*model, 10, 2), empty(*model, 10, 2);
  a.observe(text, {});
  b.observe(other, {});
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_NE(a.digest(), empty.digest());
}

TEST(ModelDraft, ContinuesAsTheModelDoesByPlainDecoding) {
  const auto model = make_hash_model({.vocabulary = 7, .seed = 9});
  PhiloxSource random(5);
  for (const Sampling& sampling : samplings) {
    for (int size = 1; size < 12; ++size) {
      std::vector<Token> text = some_text(size);
      ModelDraft draft(*model, 30, 6);
      if (size > 1) draft.observe(std::span(text).first(text.size() - 1), {});
      const Proposal proposal = propose(draft, text, 6, sampling, random);
      ASSERT_EQ(proposal.size(), 6);
      for (int i = 0; i < 6; ++i) {
        const int length = static_cast<int>(text.size());
        const auto cache = model->new_cache(length, length);
        const Transaction transaction = cache->begin(length);
        Outputs outputs;
        forward_alone(*model, {.cache = cache.get(), .tokens = text, .logits_from = length - 1}, outputs);
        const Distribution q = compute_distribution(outputs.logits, sampling, {text, {}});
        ASSERT_EQ(proposal.drawn_from[i], q) << "penalties see the draft tokens before";
        text.push_back(proposal.tokens[i]);
      }
    }
  }
}

TEST(ModelDraft, RecordsTheDistributionThatWasDrawnFrom) {
  const auto model = make_hash_model({.vocabulary = 7});
  const std::vector<Token> text = some_text(9);
  PhiloxSource random(8);
  for (const Sampling& sampling : samplings) {
    for (const Purpose noise : {Purpose::target, Purpose::draft}) {
      for (int sequence = 0; sequence < 3; ++sequence) {
        ModelDraft draft(*model, 30, 6);
        draft.observe(std::span(text).first(8), {});
        expect_redrawn(propose(draft, text, 6, sampling, random, noise, sequence), 9, noise, sequence, random);
      }
    }
  }
}

TEST(ModelDraft, ProposesTheRequestedNumberOfDraftTokens) {
  const auto model = make_hash_model({.vocabulary = 7});
  const std::vector<Token> text = some_text(5);
  PhiloxSource random(1);
  ModelDraft draft(*model, 30, 6);
  EXPECT_EQ(draft.draft_max(), 6);
  EXPECT_TRUE(draft.taps().empty());
  draft.observe(std::span(text).first(4), {});
  for (int limit = 1; limit <= 6; ++limit) {
    EXPECT_EQ(propose(draft, text, limit, samplings[1], random).size(), limit);
  }
  EXPECT_DEATH(propose(draft, text, 7, samplings[1], random), "at most draft_max\\(\\) draft tokens");
  EXPECT_DEATH(propose(draft, text, 0, samplings[1], random), "at most draft_max\\(\\) draft tokens");
}

TEST(ModelDraft, EndsBeforeTheFirstTokenThatIsNotSureEnough) {
  const auto model = make_hash_model({.vocabulary = 7});
  const std::vector<Token> text = some_text(60);
  const Sampling sampling{.temperature = 1};  // so that a row and what it is drawn from are one
  PhiloxSource random(3);
  ModelDraft always(*model, 80, 5);
  ModelDraft draft(*model, 80, 5, MinProbability(0.35));
  std::map<int, int> lengths;
  for (std::size_t observed = 0; observed + 1 < text.size(); ++observed) {
    const auto committed = std::span(text).first(observed + 1);
    const Proposal all = propose(always, committed, 5, sampling, random);
    const Proposal proposal = propose(draft, committed, 5, sampling, random);
    int expected = 0;
    for (; expected < 5; ++expected) {
      const std::vector<std::uint64_t> weights = all.drawn_from[static_cast<std::size_t>(expected)].weights();
      if (static_cast<double>(*std::ranges::max_element(weights)) < 0.35 * double(Distribution::total)) break;
    }
    ASSERT_EQ(proposal.size(), expected);
    ASSERT_TRUE(std::equal(proposal.tokens.begin(), proposal.tokens.end(), all.tokens.begin()));
    ++lengths[expected];
    always.observe(std::span(text).subspan(observed, 1), {});
    draft.observe(std::span(text).subspan(observed, 1), {});
  }
  EXPECT_GT(lengths[0], 0);
  EXPECT_GT(lengths.size(), 2U);
}

TEST(ModelDraft, ObservesAsManyTokensAsTheContractAllows) {
  const auto model = make_hash_model({.vocabulary = 7});
  const std::vector<Token> text = some_text(600);
  ModelDraft small(*model, 700, 4);
  small.observe(std::span(text).first(Draft::max_chunk), {});
  EXPECT_DEATH(small.observe(std::span(text).first(Draft::max_chunk + 1), {}), "between one row and max_pending_rows");
  EXPECT_DEATH(small.observe({}, {}), "at least one token");
  ModelDraft large(*model, 700, 300);
  large.observe(std::span(text).first(301), {});
}

TEST(ModelDraft, AFailedPassIsRolledBack) {
  TableModel model(3, [](std::span<const Token> text) {
    return std::vector<float>{static_cast<float>(text.size() % 3), 1, 1};
  });
  int calls = 0, fail_at = 0;
  model.written = [&](int) {
    if (calls++ == fail_at) throw std::runtime_error("a pass fails");
  };
  const auto fail = [&](int at) {
    calls = 0;
    fail_at = at;
  };
  const std::vector<Token> text = {0, 1, 2, 0, 1, 1, 0, 2, 2};
  PhiloxSource random(1);
  ModelDraft draft(model, 30, 5);
  const Fingerprint empty = draft.digest();
  fail(0);
  EXPECT_THROW(draft.observe(std::span(text).first(8), {}), std::runtime_error);
  EXPECT_EQ(draft.digest(), empty) << "a run is observed whole or not at all";
  draft.observe(std::span(text).first(8), {});
  const Fingerprint before = draft.digest();
  EXPECT_NE(before, empty);
  for (int k = 0; k < 5; ++k) {
    fail(k);
    EXPECT_THROW(propose(draft, text, 5, {}, random), std::runtime_error);
    EXPECT_EQ(draft.digest(), before) << "a proposal that failed in mid-block leaves a trace";
  }
  EXPECT_EQ(propose(draft, text, 5, {}, random).size(), 5);
}

}  // namespace
}  // namespace draftproof::model_draft_test
