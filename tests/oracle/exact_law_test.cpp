// SPDX-License-Identifier: MIT
#include "oracle/exact_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/oracle/constant_model.h"

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
  EXPECT_EQ(answer.cut, 8);
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
  EXPECT_EQ(answer.stopped, 2);
  EXPECT_EQ(answer.cut, 1);
}

TEST(CompareLaws, ATextTheTargetNeverSaysCounts) {
  LoadedCoin never_zero(0, 1);
  EXPECT_EQ(compare_laws(never_zero, question(2, {0})).distance, Rational(3, 4));
}

TEST(DistributionExact, NamesVariationAndWorstTextOfADeviation) {
  LoadedCoin loaded(3, 1);
  const LawQuestion questions[] = {question(2, {0})};
  const Finding finding = check_distribution_exact(loaded, questions);
  EXPECT_EQ(finding.outcome, Outcome::fail);
  EXPECT_EQ(finding.examined, 1);
  EXPECT_THAT(finding.sentence, HasSubstr("rejection"));
  EXPECT_THAT(finding.sentence, HasSubstr("0.25"));
  EXPECT_THAT(finding.sentence, HasSubstr("most at the text 0"));
}

TEST(DistributionExact, IsVacuousWithoutGuessesAndWithoutQuestions) {
  LoadedCoin fair(1, 1);
  const LawQuestion questions[] = {question(2, {0})};
  EXPECT_EQ(check_distribution_exact(fair, questions).outcome, Outcome::vacuous);
  EXPECT_EQ(check_distribution_exact(fair, {}).outcome, Outcome::vacuous);
}

}  // namespace
}  // namespace draftproof
