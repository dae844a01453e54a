// SPDX-License-Identifier: MIT
#include "ref/drafts/suffix_tree.h"
#include "tests/drafts/texts.h"
#include "tests/sanitized.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace draftproof::suffix_tree_test {
namespace {

constexpr Token separator = SuffixTree::separator;

/// What the tree is to know of a string, counted by loops over the text.
struct Counted {
  int count = 0;                      // n
  std::array<int, 3> followers = {};  // n of the string and one token more
};

Counted counted(std::span<const Token> text, std::span<const Token> string) {
  Counted result;
  for (std::size_t i = 0; i + string.size() <= text.size(); ++i) {
    if (!std::equal(string.begin(), string.end(), text.begin() + static_cast<std::ptrdiff_t>(i))) continue;
    ++result.count;
    const std::size_t next = i + string.size();
    if (next < text.size() && text[next] != separator) ++result.followers[static_cast<std::size_t>(text[next])];
  }
  return result;
}

std::string shown(std::span<const Token> text) {
  std::string result;
  for (const Token token : text) result += std::to_string(token) + " ";
  return result;
}

/// Compares the tree's answers for `string` and for every longer one that begins with it. Tokens: 0 to 2.
void expect_counts_below(const SuffixTree& tree, std::span<const Token> text, std::vector<Token>& string,
                         std::span<const Token> letters) {
  const auto place = tree.find(text, string);
  const Counted expected = counted(text, string);
  const bool in_reach = string.size() <= static_cast<std::size_t>(tree.depth());
  ASSERT_EQ(place.has_value(), in_reach && (string.empty() || expected.count > 0))
      << shown(text) << "| " << shown(string);
  if (!place) return;
  if (!string.empty()) {
    ASSERT_EQ(tree.count(*place), expected.count) << shown(text) << "| " << shown(string);
  }
  const auto next = tree.most_frequent(text, *place);
  const int all = std::accumulate(expected.followers.begin(), expected.followers.end(), 0);
  const bool follows = string.size() < static_cast<std::size_t>(tree.depth()) && all > 0;
  ASSERT_EQ(next.has_value(), follows) << shown(text) << "| " << shown(string);
  if (next) {
    const auto max = std::ranges::max_element(expected.followers);
    const auto best = static_cast<Token>(max - expected.followers.begin());
    ASSERT_EQ(next->token, best) << shown(text) << "| " << shown(string);
    ASSERT_EQ(next->share, static_cast<double>(*max) / static_cast<double>(all));
    string.push_back(best);
    const auto found = tree.find(text, string);
    ASSERT_TRUE(found && found->node == next->place.node && found->length == next->place.length);
    string.pop_back();
  }
  for (const Token letter : letters) {
    if (letter == separator) continue;
    string.push_back(letter);
    expect_counts_below(tree, text, string, letters);
    string.pop_back();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Checks the tree of every text over the letters that begins with `text` and has at most `longest` tokens.
void expect_all_texts(const SuffixTree& tree, std::vector<Token>& text, std::size_t longest,
                      std::span<const Token> letters) {
  std::vector<Token> string;
  expect_counts_below(tree, text, string, letters);
  if (text.size() <= 7) {
    ASSERT_EQ(tree.fault(text), "") << shown(text);
  }
  ASSERT_LE(tree.nodes(), 1 + 2 * tree.size());
  if (text.size() == longest) return;
  for (const Token letter : letters) {
    SuffixTree longer = tree;
    text.push_back(letter);
    longer.append(text);
    expect_all_texts(longer, text, longest, letters);
    text.pop_back();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

void expect_exact(std::size_t longest, std::initializer_list<int> depths, const std::vector<Token>& letters) {
  for (const int depth : depths) {
    std::vector<Token> text;
    expect_all_texts(SuffixTree(depth), text, longest, letters);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(SuffixTree, CountsEverySubstringOfEveryTextOverThreeLetters) {
  expect_exact(7, {1, 2, 3, 4, 5}, {0, 1, 2});
  expect_exact(10, {64}, {2, 0, 1});
}

TEST(SuffixTree, CountsNoSubstringAcrossASeparator) { expect_exact(8, {1, 2, 3, 64}, {0, separator, 1}); }

TEST(SuffixTreeSlow, CountsEverySubstringOfEveryTextOverThreeLetters) {
  expect_exact(11, {64}, {0, 1, 2});
  expect_exact(9, {2, 3, 4, 5}, {0, 1, 2});
  expect_exact(10, {64}, {0, separator, 1});
}

TEST(SuffixTreeSweep, CountsEverySubstringOfEveryTextOverThreeLetters) {
  expect_exact(12, {64}, {0, 1, 2});
  expect_exact(10, {2, 3, 4, 5}, {0, 1, 2});
  expect_exact(11, {64}, {0, separator, 1});
}

/// As a program repeats itself: pieces of what was written before, and now and then something new.
std::vector<Token> copied_text(int length, std::uint32_t seed) {
  std::vector<Token> text = random_text(64, 1000, seed);
  while (static_cast<int>(text.size()) < length) {
    const std::vector<Token> random = random_text(4, 1U << 15, ++seed);
    const std::size_t from = static_cast<std::size_t>(random[0]) * 32 % text.size();
    for (std::size_t i = 0; i < static_cast<std::size_t>(random[1] % 90) && from + i < text.size(); ++i) {
      text.push_back(text[from + i]);
    }
    text.push_back(random[2] % 1000);
  }
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// 0, 01, 010, 01001, ...: each the two before, so that every edge is split as late as it can be.
std::vector<Token> fibonacci_text(int length) {
  std::vector<Token> shorter = {0};
  std::vector<Token> text = {0, 1};
  while (static_cast<int>(text.size()) < length) {
    std::vector<Token> longer = text;
    longer.insert(longer.end(), shorter.begin(), shorter.end());
    shorter = std::exchange(text, std::move(longer));
  }
  text.resize(static_cast<std::size_t>(length));
  return text;
}

SuffixTree tree_of(std::span<const Token> text, int depth) {
  SuffixTree tree(depth);
  while (tree.size() < static_cast<int>(text.size())) tree.append(text);
  return tree;
}

TEST(SuffixTree, OfLongerTextsHasTheCountsOfTheText) {
  for (const int depth : {2, 7, 64}) {
    for (std::uint32_t letters = 1; letters <= 5; ++letters) {
      const std::vector<Token> text = random_text(300, letters, letters);
      EXPECT_EQ(tree_of(text, depth).fault(text), "");
    }
    for (const int period : {1, 2, 9, 63, 64, 65}) {
      std::vector<Token> text = periodic_text(250, period);
      EXPECT_EQ(tree_of(text, depth).fault(text), "");
      for (std::size_t i = 100; i < text.size(); i += 71) text[i] = separator;
      EXPECT_EQ(tree_of(text, depth).fault(text), "");
    }
    const std::vector<Token> text = copied_text(500, 5);
    EXPECT_EQ(tree_of(text, depth).fault(text), "");
    EXPECT_EQ(tree_of(fibonacci_text(300), depth).fault(fibonacci_text(300)), "");
  }
}

TEST(SuffixTree, HasAtMostTwoNodesPerToken) {
  constexpr int length = 100'000;
  for (const std::vector<Token>& text :
       {random_text(length, 2, 1), random_text(length, 50, 2), random_text(length, 1U << 15, 3),
        periodic_text(length, 7), periodic_text(length, 50'000), periodic_text(length, 1), fibonacci_text(length),
        copied_text(length, 4)}) {
    EXPECT_LE(tree_of(text, 64).nodes(), 1 + 2 * length);
  }
  EXPECT_EQ(tree_of(periodic_text(length, 1), 64).nodes(), 2);
  EXPECT_EQ(tree_of(periodic_text(length, 7), 64).nodes(), 8);
}

TEST(SuffixTree, ForgetsEverythingWhenItIsCleared) {
  const std::vector<Token> text = random_text(200, 3, 1);
  SuffixTree tree = tree_of(text, 8);
  tree.clear();
  EXPECT_EQ(tree.size(), 0);
  EXPECT_EQ(tree.nodes(), 1);
  EXPECT_FALSE(tree.find({}, text));
  const std::vector<Token> other = random_text(100, 3, 2);
  while (tree.size() < 100) tree.append(other);
  EXPECT_EQ(tree.fault(other), "");
  EXPECT_EQ(tree.nodes(), tree_of(other, 8).nodes());
}

TEST(SuffixTreeSlow, TakesATimePerTokenThatDoesNotGrowWithTheText) {
  if (test::sanitized) GTEST_SKIP() << "times are a sanitizer's";
  const auto build = [](const Text& text) { EXPECT_GT(tree_of(text, 64).nodes(), 1); };
  const auto random = [](std::uint32_t vocabulary) {
    return [vocabulary](int length) { return random_text(length, vocabulary); };
  };
  expect_time_per_token_not_to_grow("random, 2 letters", random(2), build);
  expect_time_per_token_not_to_grow("random, 30000 letters", random(30'000), build);
  expect_time_per_token_not_to_grow(
      "period 5", [](int length) { return periodic_text(length, 5); }, build);
  expect_time_per_token_not_to_grow("fibonacci", fibonacci_text, build);
  expect_time_per_token_not_to_grow(
      "copied", [](int length) { return copied_text(length, 1); }, build);
}

}  // namespace
}  // namespace draftproof::suffix_tree_test
