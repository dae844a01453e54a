// SPDX-License-Identifier: MIT
#include "ref/text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/text/gguf_pre_tokenizers.h"

namespace draftproof::pre_tokenizer_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> split(PreTokenizer::Step step, std::string_view text, bool first = true) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(std::move(step));
  MatchBudget budget(text.size());
  const Pieces pieces = pre_tokenizer.split(text, first, budget);
  return {pieces.list.begin(), pieces.list.end()};
}

// The example of Hugging Face's documentation.
TEST(PreTokenizer, KnowsEveryBehaviorOfASplit) {
  const auto by_dash = [](SplitBehavior behavior, bool inverted = false) {
    return split(SplitStep{{"-", "FILE: field f"}, behavior, inverted}, "the-final--countdown");
  };
  EXPECT_THAT(by_dash(SplitBehavior::removed), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(by_dash(SplitBehavior::isolated), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(by_dash(SplitBehavior::merged_with_previous), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(by_dash(SplitBehavior::merged_with_next), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(by_dash(SplitBehavior::contiguous), ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(by_dash(SplitBehavior::removed, true), ElementsAre("-", "-", "-"));
}

TEST(PreTokenizer, MarksSpaces) {
  using Prepend = MetaspaceStep::Prepend;
  EXPECT_THAT(split(MetaspaceStep{"_", Prepend::always, true}, "a  b"), ElementsAre("_a", "_", "_b"));
  EXPECT_THAT(split(MetaspaceStep{"_", Prepend::always, false}, " a b"), ElementsAre("_a_b"));
  EXPECT_THAT(split(MetaspaceStep{"_", Prepend::never, true}, "a b"), ElementsAre("a", "_b"));
  EXPECT_THAT(split(MetaspaceStep{"_", Prepend::first, true}, "a b"), ElementsAre("_a", "_b"));
  EXPECT_THAT(split(MetaspaceStep{"_", Prepend::first, true}, "a b", false), ElementsAre("a", "_b"));
}

TEST(GgufPreTokenizers, HaveNamesOfTheirOwnAndExpressionsThatCompile) {
  std::vector<std::string_view> seen;
  for (const GgufPreTokenizer& kind : gguf_pre_tokenizers()) {
    for (const std::string_view name : kind.names) {
      EXPECT_EQ(std::ranges::count(seen, name), 0) << name;
      EXPECT_EQ(find_gguf_pre_tokenizer(name), &kind) << name;
      seen.push_back(name);
    }
    for (const std::string& expression : kind.expressions) Pattern(expression, std::string(kind.names.front()));
  }
  EXPECT_EQ(find_gguf_pre_tokenizer("nobody's"), nullptr);
}

std::vector<std::string> split_pieces(std::string_view name, std::string_view text) {
  PreTokenizer pre_tokenizer;
  for (const std::string& expression : find_gguf_pre_tokenizer(name)->expressions) {
    pre_tokenizer.add(SplitStep{{expression, std::string(name)}});
  }
  MatchBudget budget(text.size());
  const Pieces pieces = pre_tokenizer.split(text, true, budget);
  return {pieces.list.begin(), pieces.list.end()};
}

TEST(GgufPreTokenizers, DifferWhereTheirModelsDo) {
  EXPECT_THAT(split_pieces("gpt-2", "it's 12345!"), ElementsAre("it", "'s", " 12345", "!"));
  EXPECT_THAT(split_pieces("qwen2", "it'S 123"), ElementsAre("it", "'S", " ", "1", "2", "3"));
  EXPECT_THAT(split_pieces("llama-bpe", "12345"), ElementsAre("123", "45"));
  EXPECT_THAT(split_pieces("qwen2", "e\u0301a"), ElementsAre("e", "\u0301a"));
  EXPECT_THAT(split_pieces("qwen35", "e\u0301a"), ElementsAre("e\u0301a"));
  EXPECT_THAT(split_pieces("tekken", "camelCASEWord/"), ElementsAre("camel", "CASEWord", "/"));
  EXPECT_THAT(split_pieces("tekken", "\u00E9\u00C9a"), ElementsAre("\u00E9", "\u00C9a"));
  EXPECT_THAT(split_pieces("gpt-4o", "We're 1234"), ElementsAre("We're", " ", "123", "4"));
  EXPECT_THAT(split_pieces("deepseek-v3", "1234\u4E16\u754Ca.b"), ElementsAre("123", "4", "\u4E16\u754C", "a", ".b"));
  EXPECT_THAT(split_pieces("deepseek-llm", "a b\n12, \u00E9  "),
              ElementsAre("a", " b", "\n", "12", ",", " \u00E9", "  "));
  EXPECT_THAT(split_pieces("deepseek-coder", "a1, b"), ElementsAre("a", "1", ",", " b"));
  EXPECT_THAT(split_pieces("falcon", "12345+a"), ElementsAre("123", "45", "+", "a"));
  EXPECT_THAT(split_pieces("starcoder", "a 12"), ElementsAre("a", " ", "1", "2"));
  EXPECT_THAT(split_pieces("seed-coder", "it's 12!!\n\nx"), ElementsAre("it", "'s", " ", "1", "2", "!!", "\n\n", "x"));
  EXPECT_THAT(split_pieces("exaone-moe", "go to it 12//\n\nx"),
              ElementsAre("go to it", " ", "1", "2", "//\n", "\n", "x"));
  EXPECT_THAT(split_pieces("bailingmoe", "it'S 12!!\n\n x"), ElementsAre("it", "'S", " ", "1", "2", "!!\n\n", " x"));
  EXPECT_THAT(split_pieces("minicpm5", "ab12345 c"), ElementsAre("ab", "123", "45", " c"));
  EXPECT_THAT(split_pieces("youtu", "\uD55C\uAD6D\uFF0C\u4E16\u754Cabc12 We're"),
              ElementsAre("\uD55C\uAD6D", "\uFF0C", "\u4E16\u754C", "abc", "1", "2", " We're"));
  EXPECT_THAT(split_pieces("bloom", "a, b (c) 12"), ElementsAre("a", ",", " b", " (", "c", ")", " 12"));
  EXPECT_THAT(split_pieces("viking", "a, b (c) 12"), ElementsAre("a", ",", " b", " (", "c", ")", " ", "1", "2"));
}

}  // namespace
}  // namespace draftproof::pre_tokenizer_test
