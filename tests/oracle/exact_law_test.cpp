// SPDX-License-Identifier: MIT
#include "oracle/exact_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "oracle/law_questions.h"
#include "tests/oracle/constant_model.h"
#include "tests/oracle/told.h"
#include "tools/hash_subject.h"

namespace draftproof {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Says token 0 with probability zero / (zero + one) where the target says it with 1/2; guesses nothing.
class LoadedCoin final : public Subject {
 public:
  LoadedCoin(std::uint64_t zero, std::uint64_t one) : weights_{zero, one} {}
  Trace run_watched(const Request& request, const Variation&, Chance& chance, const AfterRound&) override {
    Trace trace;
    trace.finish = Finish::length;
    while (static_cast<int>(trace.output.size()) < request.max_new_tokens && trace.finish == Finish::length) {
      const int position = static_cast<int>(request.prompt.size() + trace.output.size());
      const auto token = static_cast<Token>(chance.pick({0, position, Purpose::target}, weights_));
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

LawQuestion question(int max_new_tokens, std::vector<Token> stops) {
  LawQuestion question;
  question.request.prompt = {0};
  question.request.sampling.temperature = 1;
  question.request.max_new_tokens = max_new_tokens;
  question.request.stops = std::move(stops);
  question.variation.rule = &rejection;
  return question;
}

TEST(CompareLaws, AFairCoinIsTheTargetsLaw) {
  LoadedCoin fair(1, 1);
  const LawAnswer answer = compare_laws(fair, question(3, {}));
  EXPECT_EQ(answer.distance, 0);
  EXPECT_EQ(answer.paths, 8);
  EXPECT_EQ(answer.texts, 8);
  EXPECT_EQ(answer.met[Event::cut], 8);
}

TEST(CompareLaws, TheDistanceIsTotalVariation) {
  LoadedCoin loaded(3, 1);
  EXPECT_EQ(compare_laws(loaded, question(1, {})).distance, Rational(1, 4));
  // 9, 3, 3 and 1 sixteenths instead of 4 each: (5 + 1 + 1 + 3) / 16 / 2
  const LawAnswer two = compare_laws(loaded, question(2, {}));
  EXPECT_EQ(two.distance, Rational(5, 16));
  EXPECT_THAT(two.worst, ElementsAre(0, 0));
}

TEST(CompareLaws, TextsEndAtStops) {
  LoadedCoin loaded(3, 1);
  // 0, 1 0 and 1 1 have 12, 3 and 1 sixteenths instead of 8, 4 and 4: (4 + 1 + 3) / 16 / 2
  const LawAnswer answer = compare_laws(loaded, question(2, {0}));
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
  Trace run_watched(const Request& request, const Variation&, Chance& chance, const AfterRound&) override {
    Trace trace;
    trace.finish = Finish::length;
    while (static_cast<int>(trace.output.size()) < request.max_new_tokens) {
      const int position = static_cast<int>(request.prompt.size() + trace.output.size());
      const std::array<std::uint64_t, 2> weights = {trace.output == text_ ? 3U : 1U, 1};
      trace.output.push_back(static_cast<Token>(chance.pick({0, position, Purpose::target}, weights)));
    }
    return trace;
  }
  Model& target(const Variation&) override { return target_; }
  std::string numerics(const Variation&) override { return "coin"; }

 private:
  std::vector<Token> text_;
  ConstantModel target_{{0, 0}};
};

TEST(CompareLaws, EveryPathAndEveryTextCounts) {
  std::vector<std::vector<Token>> texts = {{}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Token> text = texts[i];
    LoadedAfter loaded(text);
    // 2^-n of the mass comes there, a quarter of which goes astray.
    EXPECT_EQ(compare_laws(loaded, question(3, {})).distance, Rational(1, 4 << text.size()));
    if (text.size() == 2) continue;
    for (const Token token : {0, 1}) {
      texts.push_back(text);
      texts.back().push_back(token);
    }
  }
  EXPECT_EQ(texts.size(), 7U);
}

TEST(ExactLaws, EveryQuestionCounts) {
  for (std::size_t wrong = 0; wrong < 5; ++wrong) {
    ExactLaws laws;
    for (std::size_t i = 0; i < 5; ++i) {
      LoadedCoin coin(i == wrong ? 3 : 1, 1);
      laws.ask(coin, question(2, {}));
    }
    EXPECT_EQ(std::move(laws).finding().outcome, Outcome::fail) << wrong;
  }
}

TEST(CompareLaws, ATextTheTargetNeverSaysCounts) {
  LoadedCoin never_zero(0, 1);
  EXPECT_EQ(compare_laws(never_zero, question(2, {0})).distance, Rational(3, 4));
}

Finding finding_of(Subject& subject, const std::vector<LawQuestion>& questions) {
  ExactLaws laws;
  for (const LawQuestion& question : questions) laws.ask(subject, question);
  return std::move(laws).finding();
}

TEST(ExactLaws, NameVariationAndWorstTextOfADeviationAndAskNoMore) {
  LoadedCoin loaded(3, 1);
  const Finding finding = finding_of(loaded, {question(2, {0}), question(3, {})});
  EXPECT_EQ(finding.outcome, Outcome::fail);
  EXPECT_EQ(finding.examined, 1);
  EXPECT_THAT(finding.sentence, HasSubstr("rejection"));
  EXPECT_THAT(finding.sentence, HasSubstr("0.25"));
  EXPECT_THAT(told(finding), HasSubstr("differs most is 0"));
  expect_whole(finding);
}

TEST(ExactLaws, AreVacuousWithoutGuessesAndWithoutQuestions) {
  LoadedCoin fair(1, 1);
  EXPECT_EQ(finding_of(fair, {question(2, {0})}).outcome, Outcome::vacuous);
  EXPECT_EQ(finding_of(fair, {}).outcome, Outcome::vacuous);
}

LawAnswer answer_to(const SmallLaw& law) {
  HashSubject subject({.vocabulary = law.vocabulary, .levels = law.levels, .spread = law.spread, .seed = law.seed});
  return compare_laws(subject, law.question);
}

/// Questions by hand, and what the production loop answers; for all tests of this file.
const std::vector<std::pair<LawQuestion, LawAnswer>>& answers_of(const Rule& rule) {
  static std::map<std::string, std::vector<std::pair<LawQuestion, LawAnswer>>> by_rule;
  auto& answers = by_rule[rule.name];
  if (answers.empty()) {
    for (const SmallLaw& law : laws_by_hand(rule)) answers.emplace_back(law.question, answer_to(law));
  }
  return answers;
}

TEST(ExactLaws, OfTheProductionLoopAreThoseOfPlainDecoding) {
  for (const Rule* rule : {&matching, &rejection}) {
    const Finding finding = check_production_law(*rule);
    EXPECT_EQ(finding.outcome, Outcome::pass) << finding.sentence;
    EXPECT_THAT(finding.sentence, HasSubstr("608 joint laws over "));
    EXPECT_THAT(finding.sentence, HasSubstr("largest deviation 0; all that can happen happened, "));
  }
}

TEST(ExactLaws, AreVacuousWhenOneThingNeverHappenedAndNameIt) {
  for (const Rule* rule : {&matching, &rejection}) {
    Coverage met;
    ExactLaws all;
    for (const auto& [question, answer] : answers_of(*rule)) {
      met.add(answer.met);
      all.add(question, answer);
    }
    EXPECT_EQ(std::move(all).finding().outcome, Outcome::pass);
    for (const Event event : Coverage().missing({.rejection = rule == &rejection, .trees = true})) {
      EXPECT_GT(met[event], 0) << name_of(event);
      ExactLaws laws;
      for (const auto& [question, answer] : answers_of(*rule)) {
        if (answer.met[event] == 0) laws.add(question, answer);
      }
      const Finding finding = std::move(laws).finding();
      EXPECT_EQ(finding.outcome, Outcome::vacuous) << name_of(event);
      EXPECT_THAT(finding.sentence, HasSubstr(name_of(event)));
    }
  }
}

TEST(ExactLaws, AreVacuousWhenTreesWereAskedForAndNoneWasGuessed) {
  ExactLaws laws;
  for (const auto& [question, answer] : answers_of(rejection)) {
    const bool tree = question.variation.draft.find_first_of("<&") != std::string::npos;
    laws.add(question, tree ? LawAnswer{} : answer);
  }
  const Finding finding = std::move(laws).finding();
  EXPECT_EQ(finding.outcome, Outcome::vacuous);
  EXPECT_THAT(finding.sentence, HasSubstr(name_of(Event::another_stood)));
}

TEST(ExactLaws, AreVacuousWhenADraftNeverGuessedInOneWayOfVerification) {
  ExactLaws laws;
  for (const auto& [question, answer] : answers_of(rejection)) {
    const bool silent = question.variation.draft == "oracular" &&
                        question.variation.verification == Verification::serial;
    laws.add(question, silent ? LawAnswer{} : answer);
  }
  const Finding finding = std::move(laws).finding();
  EXPECT_EQ(finding.outcome, Outcome::vacuous);
  EXPECT_THAT(finding.sentence, HasSubstr("no guess of oracular, serial was ever judged"));
}

TEST(LawsByNumber, OfTreesGuessAtMostFourTokensAndMostOfThemMoreThanOneInAPlace) {
  int trees = 0;
  for (int number = 0; number < 2000; ++number) {
    const SmallLaw law = law_by_number(rejection, number, 500, Guessed::trees);
    const std::string& draft = law.question.variation.draft;
    ASSERT_TRUE(draft.starts_with("scripted:"));
    const auto guesses = [](char letter) {
      return std::string_view("+~?-*0123456789").find(letter) != std::string::npos;
    };
    std::string word;
    for (const char letter : draft.substr(9) + "/") {
      if (letter != '/') {
        word += letter;
        continue;
      }
      EXPECT_EQ(std::count_if(word.begin(), word.end(), guesses), word.empty() ? 0 : 4) << draft;
      const std::string after_back = word.substr(std::min(word.find('<'), word.size()));
      EXPECT_EQ(after_back.find_first_of("+~?&"), std::string::npos) << draft << ": only the first branch is drawn";
      word.clear();
    }
    trees += draft.find_first_of("<&") != std::string::npos;
  }
  EXPECT_GT(trees, 1000);
}

TEST(LawsByNumber, AreSmallFitTheirModelAndAreTheSameAgain) {
  std::set<int> vocabularies;
  std::set<int> texts;
  std::set<std::string> drafts;
  std::set<Token> stops;
  for (int number = 0; number < 2000; ++number) {
    const SmallLaw law = law_by_number(rejection, number, 500);
    const Request& request = law.question.request;
    const Variation& variation = law.question.variation;
    EXPECT_TRUE(law.vocabulary >= 2 && law.vocabulary <= 8);
    EXPECT_TRUE(request.max_new_tokens >= 1 && request.max_new_tokens <= 6);
    EXPECT_TRUE(variation.draft_max >= 1 && variation.draft_max <= 4);
    ASSERT_FALSE(request.prompt.empty());
    for (const Token token : request.prompt) EXPECT_LT(token, law.vocabulary);
    for (const Token token : request.stops) EXPECT_LT(token, law.vocabulary);
    vocabularies.insert(law.vocabulary);
    texts.insert(request.max_new_tokens);
    drafts.insert(variation.draft);
    stops.insert(static_cast<Token>(request.stops.size()));
    const SmallLaw again = law_by_number(rejection, number, 500);
    EXPECT_EQ(again.question.variation.describe(), variation.describe());
    EXPECT_TRUE(again.question.request.sampling == request.sampling && again.question.request.stops == request.stops);
  }
  EXPECT_EQ(vocabularies.size(), 7U);
  EXPECT_EQ(texts.size(), 6U);
  EXPECT_GT(drafts.size(), 500U);
  EXPECT_EQ(stops.size(), 3U);
}

void expect_right_by_number(Guessed guessed) {
  for (const Rule* rule : {&matching, &rejection}) {
    ExactLaws laws;
    for (int number = 0; number < 10000; ++number) {
      const SmallLaw law = law_by_number(*rule, number, 2000, guessed);
      laws.add(law.question, answer_to(law));
    }
    const Finding finding = std::move(laws).finding();
    EXPECT_EQ(finding.outcome, Outcome::pass) << finding.sentence;
    testing::Test::RecordProperty(rule->name, finding.sentence);
  }
}

TEST(SlowExactLaws, TenThousandByNumberUnderEachRule) { expect_right_by_number(Guessed::chains); }
TEST(SlowExactLaws, TenThousandTreesByNumberUnderEachRule) { expect_right_by_number(Guessed::trees); }

}  // namespace
}  // namespace draftproof
