// SPDX-License-Identifier: MIT
#include "ref/drafts/control_drafts.h"

#include <gtest/gtest.h>

#include <limits>

#include "ref/acceptance/rule.h"
#include "ref/models/hash.h"
#include "tests/drafts/support.h"

namespace draftproof::control_drafts_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The target's distributions after a text and the draft tokens of a proposal, every row computed from scratch.
class FreshRows final : public TargetRows {
 public:
  FreshRows(Model& target, const Sampling& sampling, std::vector<Token> text, const Proposal& proposal)
      : target_(target), sampling_(sampling), text_(std::move(text)), proposal_(proposal) {}

  const Distribution& row(int row) override {
    std::vector<Token> text = text_;
    text.insert(text.end(), proposal_.tokens.begin(), proposal_.tokens.begin() + row);
    const int length = static_cast<int>(text.size());
    const auto cache = target_.new_cache(length, length);
    const Transaction transaction = cache->begin(length);
    Outputs outputs;
    forward_alone(target_, {.cache = cache.get(), .tokens = text, .logits_from = length - 1}, outputs);
    return distribution_ = compute_distribution(outputs.logits, sampling_, {text, {}});
  }

 private:
  Model& target_;
  Sampling sampling_;
  std::vector<Token> text_;
  const Proposal& proposal_;
  Distribution distribution_;
};

/// Returns the verdict on the proposal of a draft of class `Kind` after `text`.
template <class Kind>
Verdict verdict_on(Model& target, const std::vector<Token>& text, const Sampling& sampling, const Rule& rule,
                   Proposal* out = nullptr) {
  PhiloxSource random(17);
  Kind draft(target, 64, 4);
  if (text.size() > 1) draft.observe(std::span(text).first(text.size() - 1), {});
  const Proposal proposal = propose(draft, text, 4, sampling, random, rule.draft_noise);
  if (out != nullptr) *out = proposal;
  FreshRows rows(target, sampling, text, proposal);
  return rule.judge(proposal, rows, 0, static_cast<int>(text.size()), random);
}

std::vector<std::vector<Token>> texts(int vocabulary) {
  std::vector<std::vector<Token>> list;
  for (int i = 0; i < 100; ++i) {
    std::vector<Token> text;
    for (int k = 0; k <= i % 7; ++k) text.push_back((i * 3 + k * k) % vocabulary);
    list.push_back(text);
  }
  return list;
}

TEST(AlwaysRejectDraft, IsRejectedAtTheFirstTokenUnderGreedyByEveryRule) {
  for (const int vocabulary : {2, 3, 8}) {
    for (const int levels : {1, 2, 4}) {  // one level: every row is flat
      const auto target = make_hash_model({.vocabulary = vocabulary, .levels = levels});
      for (const auto& text : texts(vocabulary)) {
        for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
          ASSERT_EQ(verdict_on<AlwaysRejectDraft>(*target, text, {}, **rule).accepted, 0);
        }
      }
    }
  }
}

TEST(AlwaysRejectDraft, ProposesTheLastOfTheLeastLikelyTokens) {
  const std::vector<std::pair<std::vector<float>, Token>> rows = {
      {{1, 1, 1, 1}, 3}, {{0, 1, 0, 1}, 2},     {{3, 2, 1, 0}, 3},
      {{0, 1, 2, 3}, 0}, {{-0.0F, 0.0F, 5}, 1}, {{-infinity, 2, -infinity, 1}, 2},
  };
  for (const auto& [logits, expected] : rows) {
    TableModel target(static_cast<int>(logits.size()), [&row = logits](std::span<const Token>) { return row; });
    Proposal proposal;
    EXPECT_EQ(verdict_on<AlwaysRejectDraft>(target, {0}, {}, matching, &proposal).accepted, 0);
    for (const Token token : proposal.tokens) EXPECT_EQ(token, expected);
    for (const Distribution& q : proposal.drawn_from) EXPECT_EQ(q, Distribution::point(expected));
  }
}

TEST(AlwaysRejectDraft, AnImpossibleTokenIsRejectedAtEveryTemperature) {
  TableModel target(4, [](std::span<const Token>) { return std::vector<float>{1, 2, -infinity, 1.5F}; });
  for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
    for (const float temperature : {0.5F, 1.0F, 30.0F}) {
      EXPECT_EQ(verdict_on<AlwaysRejectDraft>(target, {1}, {.temperature = temperature}, **rule).accepted, 0);
    }
  }
}

TEST(PerfectDraft, IsAcceptedCompletelyUnderEveryRule) {
  for (const Sampling& sampling : std::vector<Sampling>{
           {},
           {.temperature = 1},
           {.repeat_penalty = 2, .repeat_last_n = -1},
           {.temperature = 0.8F, .top_p = 0.9F, .presence_penalty = 0.5F, .frequency_penalty = 0.5F}}) {
    const auto target = make_hash_model({.vocabulary = 6, .levels = 3});
    for (const auto& text : texts(6)) {
      EXPECT_EQ(verdict_on<PerfectDraft>(*target, text, sampling, matching).accepted, 4);
      EXPECT_EQ(verdict_on<PerfectDraft>(*target, text, sampling, rejection).accepted, 4);
    }
  }
}

TEST(PerfectDraft, DrawsFromTheTargetsDistributionUnderRejection) {
  const Sampling sampling{.temperature = 0.8F, .top_k = 5, .presence_penalty = 0.5F};
  const auto target = make_hash_model({.vocabulary = 6, .levels = 3});
  for (const auto& text : texts(6)) {
    Proposal proposal;
    EXPECT_EQ(verdict_on<PerfectDraft>(*target, text, sampling, rejection, &proposal).accepted, 4);
    FreshRows rows(*target, sampling, text, proposal);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(proposal.drawn_from[i], rows.row(i));
  }
}

}  // namespace
}  // namespace draftproof::control_drafts_test
