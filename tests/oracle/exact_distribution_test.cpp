// SPDX-License-Identifier: MIT
#include "oracle/exact/exact_distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "oracle/exact/exact_cases.h"
#include "tests/oracle/constant_model.h"
#include "tests/oracle/told.h"
#include "zoo/production_distribution.h"
#include "zoo/zoo_subject.h"

namespace draftproof::exact_distribution_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Emits token 0 with probability zero / (zero + one) where the target emits it with 1/2; drafts nothing.
class LoadedCoin final : public Subject {
 public:
  LoadedCoin(std::uint64_t zero, std::uint64_t one) : weights_{zero, one} {}
  Trace run_with_callback(const Request& request, const Variation&, RandomSource& random, const OnRound&) override {
    Trace trace;
    trace.finish = Finish::length;
    while (static_cast<int>(trace.output.size()) < request.max_new_tokens && trace.finish == Finish::length) {
      const int position = static_cast<int>(request.prompt.size() + trace.output.size());
      const auto token = static_cast<Token>(random.sample_index({0, position, Purpose::target}, weights_));
      trace.output.push_back(token);
      if (!request.stops.empty() && token == request.stops[0]) trace.finish = Finish::stop;
    }
    return trace;
  }
  Model& target(const Variation&) override { return target_; }
  std::string numerics(const Variation&) override { return "coin"; }

 private:
  std::uint64_t weights_[2];
  ConstantModel target_{{0, 0}};
};

ExactQuestion question(int max_new_tokens, std::vector<Token> stops) {
  ExactQuestion question;
  question.request.prompt = {0};
  question.request.sampling.temperature = 1;
  question.request.max_new_tokens = max_new_tokens;
  question.request.stops = std::move(stops);
  question.variation.rule = &rejection;
  return question;
}

TEST(CompareDistributions, AFairCoinHasDistanceZero) {
  LoadedCoin fair(1, 1);
  const ExactAnswer answer = compare_distributions(fair, question(3, {}));
  EXPECT_EQ(answer.distance, 0);
  EXPECT_EQ(answer.paths, 8);
  EXPECT_EQ(answer.texts, 8);
  EXPECT_EQ(answer.met[Event::cut], 8);
}

TEST(CompareDistributions, TheDistanceIsTotalVariation) {
  LoadedCoin loaded(3, 1);
  EXPECT_EQ(compare_distributions(loaded, question(1, {})).distance, Rational(1, 4));
  // 9, 3, 3 and 1 sixteenths instead of 4 each: (5 + 1 + 1 + 3) / 16 / 2
  const ExactAnswer two = compare_distributions(loaded, question(2, {}));
  EXPECT_EQ(two.distance, Rational(5, 16));
  EXPECT_THAT(two.worst, ElementsAre(0, 0));
}

TEST(CompareDistributions, TextsEndAtStops) {
  LoadedCoin loaded(3, 1);
  // 0, 1 0 and 1 1 have 12, 3 and 1 sixteenths instead of 8, 4 and 4: (4 + 1 + 3) / 16 / 2
  const ExactAnswer answer = compare_distributions(loaded, question(2, {0}));
  EXPECT_EQ(answer.distance, Rational(1, 4));
  EXPECT_THAT(answer.worst, ElementsAre(0));
  EXPECT_EQ(answer.paths, 3);
  EXPECT_EQ(answer.texts, 3);
  EXPECT_EQ(answer.met[Event::stopped], 2);
  EXPECT_EQ(answer.met[Event::cut], 1);
}

/// A fair coin that is loaded after one text only.
class LoadedAfter final : public Subject {
 public:
  explicit LoadedAfter(std::vector<Token> text) : text_(std::move(text)) {}
  Trace run_with_callback(const Request& request, const Variation&, RandomSource& random, const OnRound&) override {
    Trace trace;
    trace.finish = Finish::length;
    while (static_cast<int>(trace.output.size()) < request.max_new_tokens) {
      const int position = static_cast<int>(request.prompt.size() + trace.output.size());
      const std::array<std::uint64_t, 2> weights = {trace.output == text_ ? 3U : 1U, 1};
      trace.output.push_back(static_cast<Token>(random.sample_index({0, position, Purpose::target}, weights)));
    }
    return trace;
  }
  Model& target(const Variation&) override { return target_; }
  std::string numerics(const Variation&) override { return "coin"; }

 private:
  std::vector<Token> text_;
  ConstantModel target_{{0, 0}};
};

TEST(CompareDistributions, EveryPathAndEveryTextCounts) {
  std::vector<std::vector<Token>> texts = {{}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Token> text = texts[i];
    LoadedAfter loaded(text);
    // 2^-n of the probability arrives there, and a quarter of it is moved.
    EXPECT_EQ(compare_distributions(loaded, question(3, {})).distance, Rational(1, 4 << text.size()));
    if (text.size() == 2) continue;
    for (const Token token : {0, 1}) {
      texts.push_back(text);
      texts.back().push_back(token);
    }
  }
  EXPECT_EQ(texts.size(), 7U);
}

TEST(ExactDistributionCheck, EveryQuestionCounts) {
  for (std::size_t wrong = 0; wrong < 5; ++wrong) {
    ExactDistributionCheck cases;
    for (std::size_t i = 0; i < 5; ++i) {
      LoadedCoin coin(i == wrong ? 3 : 1, 1);
      cases.ask(coin, question(2, {}));
    }
    EXPECT_EQ(std::move(cases).finding().outcome, Outcome::fail) << wrong;
  }
}

TEST(CompareDistributions, ATextImpossibleInPlainDecodingCounts) {
  LoadedCoin never_zero(0, 1);
  EXPECT_EQ(compare_distributions(never_zero, question(2, {0})).distance, Rational(3, 4));
}

Finding finding_of(Subject& subject, const std::vector<ExactQuestion>& questions) {
  ExactDistributionCheck cases;
  for (const ExactQuestion& question : questions) cases.ask(subject, question);
  return std::move(cases).finding();
}

TEST(ExactDistributionCheck, NamesVariationAndWorstTextOfADeviationAndAsksNoMore) {
  LoadedCoin loaded(3, 1);
  const Finding finding = finding_of(loaded, {question(2, {0}), question(3, {})});
  EXPECT_EQ(finding.outcome, Outcome::fail);
  EXPECT_EQ(finding.examined, 1);
  EXPECT_THAT(finding.message, HasSubstr("rejection"));
  EXPECT_THAT(finding.message, HasSubstr("0.25"));
  EXPECT_THAT(told(finding), HasSubstr("differs most is 0"));
  expect_whole(finding);
}

TEST(ExactDistributionCheck, IsVacuousWithoutDraftTokensAndWithoutQuestions) {
  LoadedCoin fair(1, 1);
  EXPECT_EQ(finding_of(fair, {question(2, {0})}).outcome, Outcome::vacuous);
  EXPECT_EQ(finding_of(fair, {}).outcome, Outcome::vacuous);
}

ExactAnswer answer_to(const ExactCase& exact_case) {
  const auto& [vocabulary, levels, spread, seed, question] = exact_case;
  zoo::ZooSubject subject({.vocabulary = vocabulary, .levels = levels, .spread = spread, .seed = seed});
  return compare_distributions(subject, exact_case.question);
}

/// The handwritten cases, and the answers of the production loop, for all tests of this file.
const std::vector<std::pair<ExactQuestion, ExactAnswer>>& answers_of(const Rule& rule) {
  static std::map<std::string, std::vector<std::pair<ExactQuestion, ExactAnswer>>> by_rule;
  auto& answers = by_rule[rule.name];
  if (answers.empty()) {
    for (const ExactCase& exact_case : handwritten_cases(rule)) {
      answers.emplace_back(exact_case.question, answer_to(exact_case));
    }
  }
  return answers;
}

TEST(ExactDistributionCheck, TheProductionLoopHasTheDistributionsOfPlainDecoding) {
  for (const Rule* rule : {&matching, &rejection}) {
    const Finding finding = zoo::check_production_distribution(*rule);
    EXPECT_EQ(finding.outcome, Outcome::pass) << finding.message;
    EXPECT_THAT(finding.message, HasSubstr("728 joint distributions, and 4 of two sequences in one batch, over "));
    EXPECT_THAT(finding.message, HasSubstr("largest deviation 0; all coverage events were met, the rarest "));
  }
}

TEST(ExactDistributionCheckSlow, IsVacuousWhenAnEventWasNeverMetAndNamesIt) {
  for (const Rule* rule : {&matching, &rejection}) {
    Coverage met;
    ExactDistributionCheck all;
    for (const auto& [question, answer] : answers_of(*rule)) {
      met.add(answer.met);
      all.add(question, answer);
    }
    EXPECT_EQ(std::move(all).finding().outcome, Outcome::pass);
    for (const Event event : Coverage().missing({.rejection = rule == &rejection, .trees = true})) {
      EXPECT_GT(met[event], 0) << name_of(event);
      ExactDistributionCheck cases;
      for (const auto& [question, answer] : answers_of(*rule)) {
        if (answer.met[event] == 0) cases.add(question, answer);
      }
      const Finding finding = std::move(cases).finding();
      EXPECT_EQ(finding.outcome, Outcome::vacuous) << name_of(event);
      EXPECT_THAT(finding.message, HasSubstr(name_of(event)));
    }
  }
}

TEST(ExactDistributionCheck, IsVacuousWhenTreesWereRequestedAndNoneWasDrafted) {
  ExactDistributionCheck cases;
  for (const auto& [question, answer] : answers_of(rejection)) {
    const bool tree = question.variation.draft.find_first_of("<&") != std::string::npos;
    cases.add(question, tree ? ExactAnswer{} : answer);
  }
  const Finding finding = std::move(cases).finding();
  EXPECT_EQ(finding.outcome, Outcome::vacuous);
  EXPECT_THAT(finding.message, HasSubstr(name_of(Event::sibling_accepted)));
}

TEST(ExactDistributionCheck, IsVacuousWhenADraftNeverDraftedInOneWayOfVerification) {
  ExactDistributionCheck cases;
  for (const auto& [question, answer] : answers_of(rejection)) {
    const bool silent = question.variation.draft == "perfect" &&
                        question.variation.verification == Verification::serial;
    cases.add(question, silent ? ExactAnswer{} : answer);
  }
  const Finding finding = std::move(cases).finding();
  EXPECT_EQ(finding.outcome, Outcome::vacuous);
  EXPECT_THAT(finding.message, HasSubstr("no draft token of perfect, serial was ever verified"));
}

TEST(GeneratedCases, TreesHaveAtMostFourDraftTokensAndMostHaveSiblings) {
  int trees = 0;
  for (int number = 0; number < 2000; ++number) {
    const ExactCase exact_case = generated_case(rejection, number, 500, DraftShape::trees);
    const std::string& draft = exact_case.question.variation.draft;
    ASSERT_TRUE(draft.starts_with("scripted:"));
    const auto draft_tokens = [](char letter) {
      return std::string_view("+~?-*0123456789").find(letter) != std::string::npos;
    };
    std::string word;
    for (const char letter : draft.substr(9) + "/") {
      if (letter != '/') {
        word += letter;
        continue;
      }
      EXPECT_EQ(std::count_if(word.begin(), word.end(), draft_tokens), word.empty() ? 0 : 4) << draft;
      const std::string after_back = word.substr(std::min(word.find('<'), word.size()));
      EXPECT_EQ(after_back.find_first_of("+~?&"), std::string::npos) << draft << ": only the first branch is drawn";
      word.clear();
    }
    trees += draft.find_first_of("<&") != std::string::npos;
  }
  EXPECT_GT(trees, 1000);
}

TEST(GeneratedCases, AreSmallFitTheirModelAndAreReproducible) {
  std::set<int> vocabularies;
  std::set<int> texts;
  std::set<std::string> drafts;
  std::set<Token> stops;
  for (int number = 0; number < 2000; ++number) {
    const ExactCase exact_case = generated_case(rejection, number, 500);
    const Request& request = exact_case.question.request;
    const Variation& variation = exact_case.question.variation;
    EXPECT_TRUE(exact_case.vocabulary >= 2 && exact_case.vocabulary <= 8);
    EXPECT_TRUE(request.max_new_tokens >= 1 && request.max_new_tokens <= 6);
    EXPECT_TRUE(variation.draft_max >= 1 && variation.draft_max <= 4);
    ASSERT_FALSE(request.prompt.empty());
    for (const Token token : request.prompt) EXPECT_LT(token, exact_case.vocabulary);
    for (const Token token : request.stops) EXPECT_LT(token, exact_case.vocabulary);
    vocabularies.insert(exact_case.vocabulary);
    texts.insert(request.max_new_tokens);
    drafts.insert(variation.draft);
    stops.insert(static_cast<Token>(request.stops.size()));
    const ExactCase again = generated_case(rejection, number, 500);
    EXPECT_EQ(again.question.variation.describe(), variation.describe());
    EXPECT_TRUE(again.question.request.sampling == request.sampling && again.question.request.stops == request.stops);
  }
  EXPECT_EQ(vocabularies.size(), 7U);
  EXPECT_EQ(texts.size(), 6U);
  EXPECT_GT(drafts.size(), 500U);
  EXPECT_EQ(stops.size(), 3U);
}

void expect_right_by_number(DraftShape drafted) {
  for (const Rule* rule : {&matching, &rejection}) {
    ExactDistributionCheck cases;
    for (int number = 0; number < 10000; ++number) {
      const ExactCase exact_case = generated_case(*rule, number, 2000, drafted);
      cases.add(exact_case.question, answer_to(exact_case));
    }
    const Finding finding = std::move(cases).finding();
    EXPECT_EQ(finding.outcome, Outcome::pass) << finding.message;
    testing::Test::RecordProperty(rule->name, finding.message);
  }
}

TEST(SlowExactDistributions, TenThousandGeneratedChainsUnderEachRule) { expect_right_by_number(DraftShape::chains); }
TEST(SlowExactDistributions, TenThousandGeneratedTreesUnderEachRule) { expect_right_by_number(DraftShape::trees); }

}  // namespace
}  // namespace draftproof::exact_distribution_test
