// SPDX-License-Identifier: MIT
// A text that the request expects changes no output, and under every rule no distribution, however wrong it is.
#include "ref/drafts/prediction.h"

#include <gtest/gtest.h>

#include <array>

#include "ref/acceptance/rule.h"
#include "ref/decoding/engine.h"
#include "ref/text/tokenizer.h"
#include "tests/decoding/exact_texts.h"
#include "tests/drafts/support.h"

namespace draftproof::prediction_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

std::vector<float> row_after(std::span<const Token> text) {
  unsigned number = 1;
  for (const Token token : text) number = (number + static_cast<unsigned>(token) + 1) * 2654435761U;
  std::vector<float> logits(3, 0.0F);
  logits[number >> 8 & 1] = number >> 11 & 1 ? 0.375F : 1.7F;
  return logits;
}

TEST(Prediction, LeavesTheDistributionOfTheTextUnderEveryRule) {
  TableModel target(3, row_after);
  const Asked request = asked({0, 1}, 4, 3, {.temperature = 1});
  const ExactTexts plain = exact_plain_texts(target, request);
  EXPECT_EQ(plain.size(), 81U);
  for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) {
    for (const std::vector<Token>& prediction : {std::vector<Token>{0, 1, 2, 0}, {2, 2, 2, 2}, {1, 0}}) {
      int accepted = 0;
      int rejected = 0;
      const ExactTexts texts = exact_texts(
          target, **rule, request,
          [&](RandomSource&, int) { return prediction_draft(prediction, request.prompt, target, 3); },
          [&](const Trace& trace) {
            accepted += trace.statistics.accepted;
            rejected += trace.statistics.mismatches;
          });
      EXPECT_EQ(distance(texts, plain), 0) << (*rule)->name;
      EXPECT_GT(accepted, 0);
      EXPECT_GT(rejected, 0);
    }
  }
}

TEST(Prediction, MadeWithACoinOfTheRuleChangesTheDistribution) {
  TableModel target(3, row_after);
  const Asked request = asked({0, 1}, 4, 3, {.temperature = 1});
  const ExactTexts plain = exact_plain_texts(target, request);
  const ExactTexts texts = exact_texts(target, rejection, request, [&](RandomSource& random, int) {
    const std::array<std::uint64_t, 2> halves = {1, 1};
    const bool accepts = random.sample_index({0, 2, Purpose::accept}, halves) == 0;
    const std::vector<Token> prediction(4, accepts ? 0 : 1);
    return prediction_draft(prediction, request.prompt, target, 3);
  });
  EXPECT_GT(distance(texts, plain), Rational(1, 100));
}

class PredictionEngine : public ::testing::Test {
 protected:
  ModelFiles files{models / "tale-target"};
  Engine engine{files, LoadOptions(best_kernels())};
  Tokenizer tokenizer = Tokenizer::load(models / "tale-target");
  Request request = asked(tokenizer.encode("Once upon a time there was a king who"), 60);

  Trace decoded(const std::string& draft, const std::vector<Token>& prediction, int draft_max = 0) {
    PhiloxSource random(3);
    return engine.decode({.request = request,
                          .execution = {.draft_max = draft_max},
                          .draft = draft,
                          .prediction = prediction,
                          .random = random});
  }
};

TEST_F(PredictionEngine, GivesTheSameOutputInFewerRoundsAloneAndBeforeEveryDraft) {
  const Trace plain = decoded("none", {});
  ASSERT_EQ(plain.output.size(), 60U);
  std::vector<Token> changed = plain.output;
  changed[20] = changed[20] == 5 ? 6 : 5;
  changed.erase(changed.begin() + 40, changed.begin() + 43);
  const std::string dflash = "dflash:" + (models / "tale-dflash").string();
  const std::string tree = "eagle3:" + (models / "tale-eagle3").string() + "?tree=8";
  for (const std::string& draft :
       {std::string("none"), dflash, std::string("suffix+") + dflash, tree, std::string("ngram-simple")}) {
    for (const int draft_max : {0, 1, Execution::draft_max_auto}) {
      if (draft == tree && draft_max == Execution::draft_max_auto) continue;
      for (const auto& prediction : {plain.output, changed, std::vector<Token>(30, 7)}) {
        const Trace trace = decoded(draft, prediction, draft_max);
        EXPECT_EQ(trace.output, plain.output) << draft << " " << draft_max;
        EXPECT_EQ(trace.own_stages, std::vector<std::string>{prediction_stage});
      }
    }
  }
  const Trace whole = decoded("none", plain.output);
  EXPECT_LE(whole.rounds.size(), 5U) << "60 tokens, 17 a round";
  EXPECT_LE(decoded("none", changed).rounds.size(), 11U);
  int predicted = 0;
  for (const Round& round : whole.rounds) predicted += from_prediction(whole, round);
  EXPECT_EQ(predicted, whole.statistics.drafted);
  const Trace without = decoded(dflash, {});
  EXPECT_EQ(without.own_stages, std::vector<std::string>{});
  for (const Round& round : without.rounds) EXPECT_EQ(from_prediction(without, round), 0);
}

TEST_F(PredictionEngine, ThatIsNowhereInTheTextLeavesTheDraftAsItWas) {
  const std::string dflash = "dflash:" + (models / "tale-dflash").string();
  const Trace without = decoded(dflash, {});
  Token strange = 5;
  const auto in_text = [&](Token token) {
    return std::ranges::count(without.output, token) + std::ranges::count(request.prompt, token) > 0;
  };
  while (in_text(strange)) ++strange;
  const Trace with = decoded(dflash, std::vector<Token>(30, strange));
  ASSERT_EQ(without.rounds.front().accepted, 0);  // the prediction's beginning is drafted here, and rejected too
  ASSERT_EQ(with.rounds.size(), without.rounds.size());
  EXPECT_EQ(with.statistics.accepted, without.statistics.accepted);
}

TEST_F(PredictionEngine, IsDraftedWhereLoadLeavesADraftNoDraftTokens) {
  const std::vector<Token> plain = decoded("none", {}).output;
  const std::string dflash = "dflash:" + (models / "tale-dflash").string();
  for (const bool predicted : {false, true}) {
    std::vector<double> passes;
    for (int rows = 1; rows <= 20; ++rows) passes.push_back(100.0 * rows * rows);
    DraftLengths lengths({.verify = passes, .draft = {std::vector<double>(20, 1.0)}, .reading = {0}});
    DraftLengths::Text text;
    ASSERT_EQ(lengths.choose(std::array{&text}), std::vector{0});
    PhiloxSource random(3);
    const Engine::Opened opened = engine.open({.request = request,
                                               .draft = dflash,
                                               .prediction = predicted ? plain : std::vector<Token>(),
                                               .random = random});
    Scheduler scheduler(engine.target(), {}, nullptr, &lengths);
    scheduler.add(*opened.sequence, opened.cost);
    while (scheduler.step()) {
    }
    EXPECT_EQ(opened.sequence->trace().output, plain);
    EXPECT_EQ(opened.sequence->trace().rounds.front().proposal.size(), predicted ? prediction_draft_max : 0);
  }
}

}  // namespace
}  // namespace draftproof::prediction_test
