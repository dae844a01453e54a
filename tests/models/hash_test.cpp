// SPDX-License-Identifier: MIT
#include "ref/models/hash.h"

#include <set>

#include "tests/models/fixtures.h"

namespace draftproof::test::hash_test {
namespace {

constexpr int length = 400;

std::vector<Token> text_of(const HashShape& shape) { return some_text(length, shape.vocabulary); }

std::vector<float> logits_of(const HashShape& shape, const std::vector<Token>& text) {
  return read(*make_hash_model(shape), text, {}).logits;
}

/// Returns the number of rows that are equal in two runs.
int equal_rows(const std::vector<float>& a, const std::vector<float>& b, int vocabulary) {
  int equal = 0;
  for (std::size_t at = 0; at < a.size(); at += static_cast<std::size_t>(vocabulary)) {
    equal += std::equal(&a[at], &a[at] + vocabulary, &b[at]);
  }
  return equal;
}

TEST(HashModel, ARowIsAFunctionOfTheTextUpToIt) {
  const HashShape shape;
  const auto model = make_hash_model(shape);
  const Reading whole = read(*model, text_of(shape), {});
  for (const int piece : {1, 2, 3, 16}) {
    for (const int refused : {0, 1, 7}) {
      for (const bool retry : {false, true}) {
        EXPECT_EQ(read(*model, text_of(shape), {}, {piece, refused, refused, retry}), whole);
      }
    }
  }
}

TEST(HashModel, AChangedTokenChangesLaterRowsAndNoEarlierOnes) {
  const HashShape shape{.levels = 1 << 20};
  const std::vector<float> before = logits_of(shape, text_of(shape));
  for (const int changed : {0, 1, 200, length - 1}) {
    auto text = text_of(shape);
    text[changed] = (text[changed] + 1) % shape.vocabulary;
    EXPECT_EQ(equal_rows(before, logits_of(shape, text), shape.vocabulary), changed);
  }
}

TEST(HashModel, SwappedTokensChangeTheRowsAfterThem) {
  const HashShape shape{.levels = 1 << 20};
  EXPECT_EQ(equal_rows(logits_of(shape, {1, 2, 3, 4}), logits_of(shape, {2, 1, 3, 4}), shape.vocabulary), 0);
}

TEST(HashModel, LogitsAreTheLevelsTimesTheSpreadAndEveryLevelOccurs) {
  const HashShape shape{.levels = 5, .spread = 3};
  const std::vector<float> logits = logits_of(shape, text_of(shape));
  EXPECT_EQ(std::set<float>(logits.begin(), logits.end()), (std::set<float>{0, 3, 6, 9, 12}));
}

TEST(HashModel, AnotherSeedGivesAnotherDistribution) {
  const HashShape shape{.levels = 1 << 20};
  HashShape other = shape;
  other.seed = 2;
  EXPECT_EQ(equal_rows(logits_of(shape, text_of(shape)), logits_of(other, text_of(shape)), shape.vocabulary), 0);
}

TEST(HashModel, APerturbedModelDisagreesInOneRowPerDisagreement) {
  for (const int disagreement : {2, 4, 10}) {
    const HashShape shape{.levels = 1 << 20};
    HashShape perturbed = shape;
    perturbed.perturbation = 7;
    perturbed.disagreement = disagreement;
    const int different =
        length - equal_rows(logits_of(shape, text_of(shape)), logits_of(perturbed, text_of(shape)), shape.vocabulary);
    // 400 fair draws: six standard deviations are at most 60.
    EXPECT_NEAR(different, length / disagreement, 60);
    EXPECT_GT(different, 0);
  }
}

TEST(HashModel, APerturbedModelOfDisagreementOneDisagreesAlways) {
  const HashShape shape{.levels = 1 << 20};
  HashShape perturbed = shape;
  perturbed.perturbation = 7;
  perturbed.disagreement = 1;
  EXPECT_EQ(equal_rows(logits_of(shape, text_of(shape)), logits_of(perturbed, text_of(shape)), shape.vocabulary), 0);
}

}  // namespace
}  // namespace draftproof::test::hash_test
