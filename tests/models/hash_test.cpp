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

HashShape folded(HashShape shape) {
  shape.recurrent = true;
  return shape;
}

TEST(HashModel, AFoldedStateGivesTheLogitsOfTheWholeText) {
  for (HashShape shape : {HashShape{}, HashShape{.vocabulary = 3, .levels = 1 << 20, .seed = 9},
                          disagreeing({.levels = 5, .spread = 3})}) {
    const auto text = text_of(shape);
    const std::vector<float> expected = logits_of(shape, text);
    const auto model = make_hash_model(folded(shape));
    const Reading whole = read(*model, text, {});
    EXPECT_EQ(whole.logits, expected);
    for (const int piece : {1, 3, 16}) {
      EXPECT_EQ(read(*model, text, {}, {.piece = piece, .refused = 3, .spare = 2, .retry = true}), whole);
      for (const int tree_call : {0, 1, 5}) {
        EXPECT_EQ(read(*model, text, {}, {.piece = piece, .branch = 2, .tree_call = tree_call}), whole);
      }
    }
  }
}

/// Random transactions of chains and trees, in one or several calls, with random parts of them kept.
TEST(HashModel, AFoldedStateEqualsTheTextInThousandsOfRandomTransactions) {
  constexpr int capacity = 60;
  constexpr int rows_max = 9;
  std::uint32_t state = 1;
  const auto below = [&](int end) {
    state = state * 1664525 + 1013904223;
    return static_cast<int>((state >> 8) % static_cast<std::uint32_t>(end));
  };
  const HashShape shape{.levels = 1 << 20};
  const auto plain = make_hash_model(shape);
  const auto recurrent = make_hash_model(folded(shape));
  for (int run = 0; run < 500; ++run) {
    const auto plain_cache = plain->new_cache(capacity, rows_max);
    const auto recurrent_cache = recurrent->new_cache(capacity, rows_max);
    std::vector<Token> text;
    while (static_cast<int>(text.size()) + rows_max <= capacity) {
      const int rows = 1 + below(rows_max);
      const bool tree = below(2) == 0;
      std::vector<Token> tokens;
      std::vector<int> depths;
      for (int row = 0; row < rows; ++row) {
        tokens.push_back(below(shape.vocabulary));
        depths.push_back(row == 0 ? 0 : below(2) == 0 ? depths.back() + 1 : below(depths.back() + 2));
      }
      Transaction first = plain_cache->begin(rows);
      Transaction second = recurrent_cache->begin(rows);
      for (int row = 0; row < rows;) {
        const auto at = static_cast<std::size_t>(row);
        const auto count = static_cast<std::size_t>(1 + below(rows - row));
        Segment segment = {.cache = plain_cache.get(),
                           .tokens = std::span(tokens).subspan(at, count),
                           .depths = tree ? std::span<const int>(depths).subspan(at, count) : std::span<const int>(),
                           .logits_from = below(static_cast<int>(count))};
        Outputs expected;
        Outputs outputs;
        forward_alone(*plain, segment, expected);
        segment.cache = recurrent_cache.get();
        forward_alone(*recurrent, segment, outputs);
        ASSERT_TRUE(same_bits(outputs.logits, expected.logits)) << "run " << run;
        row += static_cast<int>(count);
      }
      std::vector<int> path;
      int last = below(rows + 1) - 1;
      if (tree) {
        for (int depth = last < 0 ? -1 : depths[last]; depth >= 0; --last) {
          if (depths[last] == depth) path.insert(path.begin(), last), --depth;
        }
      } else {
        for (int row = 0; row <= last; ++row) path.push_back(row);
      }
      for (const int row : path) text.push_back(tokens[row]);
      first.commit(path);
      if (tree) {
        second.commit(path);
      } else {
        second.commit(static_cast<int>(path.size()));
      }
    }
    ASSERT_EQ(recurrent_cache->length(), static_cast<int>(text.size()));
    ASSERT_EQ(recurrent_cache->digest(), read(*recurrent, text, {}).cache) << "run " << run;
  }
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
