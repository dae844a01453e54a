// SPDX-License-Identifier: MIT
// Hash models stand for those that were trained with masks: what a row says depends on all tokens up to it.
#include "ref/drafts/pard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/drafts/support.h"

namespace draftproof::pard_test {
namespace {

constexpr int vocabulary = 7;
constexpr Token mask = 6;
const Sampling sampled = {.temperature = 1};

std::vector<float> row_of(std::span<const Token> text) {
  unsigned number = 17;
  for (const Token token : text) number = number * 1664525U + static_cast<unsigned>(token) + 1013904223U;
  std::vector<float> logits;
  for (int token = 0; token < vocabulary; ++token) {
    logits.push_back(static_cast<float>((number >> (3 * token)) % 16) / 5);
  }
  return logits;
}

/// A drafter over a table of rows, and what its passes have read.
struct Drafter {
  std::vector<int> passes;  // rows of each
  TableModel* model;
  PardDrafter drafter;

  explicit Drafter(PardShape shape = {.mask = mask})
      : model(new TableModel(vocabulary, row_of)), drafter(std::unique_ptr<Model>(model), shape) {
    model->written = [this](int rows) { passes.push_back(rows); };
  }
  std::unique_ptr<Draft> open(int draft_max) { return drafter.open(120, draft_max); }
};

/// The text, the anchor last, and so many masks behind it.
std::vector<Token> with_masks(std::vector<Token> text, int masks) {
  text.insert(text.end(), static_cast<std::size_t>(masks), mask);
  return text;
}

TEST(Pard, DrawsEachTokenFromTheRowOfItsMaskInOnePass) {
  const std::vector<Token> text = some_text(9);
  PhiloxSource random(3);
  for (const Sampling& sampling : {Sampling{}, sampled, Sampling{.temperature = 0.7F, .top_k = 3}}) {
    for (const Purpose noise : {Purpose::target, Purpose::draft}) {
      Drafter drafter;
      const auto draft = drafter.open(5);
      draft->observe(std::span(text).first(8), {});
      const Proposal proposal = propose(*draft, text, 5, sampling, random, noise, 4);
      ASSERT_EQ(proposal.size(), 5);
      expect_redrawn(proposal, 9, noise, 4, random);
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(proposal.drawn_from[static_cast<std::size_t>(i)],
                  compute_distribution(row_of(with_masks(text, i)), sampling, {}))
            << "which token was drawn before does not matter";
      }
    }
  }
}

/// The example of the header.
TEST(Pard, ReadsWhatTheTextTookWithTheNextProposalAndKeepsNoMask) {
  Drafter drafter;
  const auto draft = drafter.open(3);
  PhiloxSource random(3);
  std::vector<Token> text = {1, 2, 3};
  draft->observe(std::span(text).first(2), {});
  const Proposal proposal = propose(*draft, text, 3, {}, random);
  EXPECT_EQ(drafter.passes, (std::vector<int>{5})) << "1 and 2 are read with the first proposal: [1, 2, 3, 9, 9]";
  const Token taken = proposal.tokens[0] == mask ? 0 : proposal.tokens[0];
  draft->observe(std::vector<Token>{3, taken}, {});
  text.insert(text.end(), {taken, 5});
  drafter.passes.clear();
  const Proposal next = propose(*draft, text, 3, {}, random);
  EXPECT_EQ(drafter.passes, (std::vector<int>{4})) << "the token that was taken, the anchor and two masks";
  EXPECT_EQ(next.drawn_from[2], compute_distribution(row_of(with_masks(text, 2)), {}, {}));
  EXPECT_EQ(draft->positions()[0].anchor, 4);
  EXPECT_EQ(draft->context()->length(), 4);
}

/// Also where the text has the mask token itself, whose row is that of a mask.
TEST(Pard, AfterAnyRoundsProposesAndHoldsWhatANewOneDoes) {
  PhiloxSource random(3);
  for (std::uint32_t number = 0; number < 200; ++number) {
    std::mt19937 numbers(number);
    const auto below = [&](int bound) { return static_cast<int>(numbers() % static_cast<unsigned>(bound)); };
    const PardShape shape = {.mask = mask, .tree = number % 3 == 0 ? 4 : 0};
    Drafter drafter(shape);
    const auto draft = drafter.open(4);
    std::vector<Token> text = some_text(1 + below(20));
    if (text.size() > 1) draft->observe(std::span(text).first(text.size() - 1), {});
    for (int round = 0; round < 12; ++round) {
      std::vector<Token> committed = {text.back()};
      if (below(4) > 0) {
        const Proposal proposal = propose(*draft, text, 1 + below(4), sampled, random);
        const int accepted = shape.tree > 0 ? std::min(1, proposal.size()) : below(proposal.size() + 1);
        committed.insert(committed.end(), proposal.tokens.begin(), proposal.tokens.begin() + accepted);
        if (accepted > 0 && below(3) == 0) committed.back() = below(2) == 0 ? mask : (committed.back() + 1) % 7;
      }
      draft->observe(committed, {});
      text.insert(text.end(), committed.begin() + 1, committed.end());
      text.push_back(below(7));
      const DraftPositions positions = draft->positions().at(0);
      ASSERT_EQ(positions.held + positions.unread, static_cast<int>(text.size()) - 1);
    }
    Drafter other(shape);
    const auto fresh = other.open(4);
    fresh->observe(std::span(text).first(text.size() - 1), {});
    const Proposal expected = propose(*fresh, text, 4, sampled, random);
    const Proposal proposal = propose(*draft, text, 4, sampled, random);
    ASSERT_EQ(proposal.tokens, expected.tokens) << number;
    ASSERT_EQ(proposal.drawn_from, expected.drawn_from) << number;
    ASSERT_EQ(draft->digest(), fresh->digest()) << number;
    ASSERT_EQ(draft->positions(), fresh->positions());
  }
}

TEST(Pard, ATreeHasTheMostProbablePathsNamedWithCertainty) {
  Drafter drafter({.mask = mask, .tree = 12});
  const auto draft = drafter.open(0);
  EXPECT_EQ(draft->draft_max(), 12);
  PhiloxSource random(3);
  const std::vector<Token> text = some_text(9);
  draft->observe(std::span(text).first(8), {});
  const Proposal tree = propose(*draft, text, 12, sampled, random);
  EXPECT_EQ(tree.size(), 12);
  for (const Distribution& q : tree.drawn_from) EXPECT_TRUE(q.is_point());
  const Proposal greedy = propose(*Drafter().open(5), std::span(text).first(1), 5, {}, random);
  EXPECT_EQ(greedy.size(), 5);
  const std::vector<float> first = row_of(text);
  EXPECT_EQ(tree.tokens.front(), std::ranges::max_element(first) - first.begin());
  EXPECT_LE(*std::ranges::max_element(tree.depths), 4) << "a path is no longer than the masks";
}

TEST(Pard, EndsBeforeTheFirstRowThatIsNotSureEnough) {
  PhiloxSource random(3);
  std::vector<int> lengths;
  for (int size = 2; size < 40; ++size) {
    const std::vector<Token> text = some_text(size);
    Drafter all;
    Drafter some({.mask = mask, .min_probability = MinProbability(0.3)});
    const auto always = all.open(5);
    const auto draft = some.open(5);
    for (Draft* const one : {always.get(), draft.get()}) one->observe(std::span(text).first(text.size() - 1), {});
    const Proposal whole = propose(*always, text, 5, sampled, random);
    const Proposal part = propose(*draft, text, 5, sampled, random);
    int expected = 0;
    for (; expected < whole.size(); ++expected) {
      const std::vector<std::uint64_t> weights = whole.drawn_from[static_cast<std::size_t>(expected)].weights();
      if (static_cast<double>(*std::ranges::max_element(weights)) < 0.3 * double(Distribution::total)) break;
    }
    EXPECT_EQ(part.size(), expected);
    lengths.push_back(expected);
  }
  EXPECT_NE(std::ranges::min(lengths), std::ranges::max(lengths));
}

TEST(Pard, TextsOfOnePassProposeWhatTheyProposeAlone) {
  PhiloxSource random(5);
  Drafter drafter;
  std::vector<std::unique_ptr<Draft>> drafts;
  std::vector<std::vector<Token>> texts, alone;
  for (int i = 0; i < 4; ++i) {
    texts.push_back(some_text(3 + 4 * i));
    drafts.push_back(drafter.open(4));
    drafts.back()->observe(std::span(texts.back()).first(texts.back().size() - 1), {});
    Drafter other;
    const auto draft = other.open(4);
    draft->observe(std::span(texts.back()).first(texts.back().size() - 1), {});
    alone.push_back(propose(*draft, texts.back(), 1 + i, sampled, random).tokens);
  }
  std::vector<Sampler> samplers(texts.size());
  std::vector<std::unique_ptr<ProposalBuilder>> builders;
  std::vector<ProposeJob> jobs;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    builders.push_back(std::make_unique<ProposalBuilder>(sampled, texts[i], 0, static_cast<int>(texts[i].size()),
                                                         Purpose::target, random, samplers[i]));
    jobs.push_back({drafts[i].get(), texts[i].back(), 1 + static_cast<int>(i), builders.back().get()});
  }
  drafter.drafter.propose(jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(jobs[i].error, nullptr);
    EXPECT_EQ(builders[i]->proposal().tokens, alone[i]);
  }
}

}  // namespace
}  // namespace draftproof::pard_test
