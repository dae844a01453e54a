// SPDX-License-Identifier: MIT
#include "ref/answers/thought_budget.h"

#include <gtest/gtest.h>

#include "ref/grammar/grammar_constraint.h"

namespace draftproof::test::thought_budget_test {
namespace {

constexpr ThoughtMarks marks = {"<think>\n", "</think>\n"};

const Tokenizer& tokenizer() {
  static const Tokenizer tale = Tokenizer::load(DRAFTPROOF_SOURCE_DIR "/fixtures/models/tale-target");
  return tale;
}
std::vector<Token> tokens(const std::string& text) { return tokenizer().encode(text, false); }
int vocabulary() { return tokenizer().vocabulary(); }

/// How many tokens may follow.
int choices(ConstraintReader& reader, const std::vector<Token>& output) {
  const TokenSet& set = reader.allowed(output);
  int count = 0;
  for (Token token = 0; token < vocabulary(); ++token) count += set.has(token) ? 1 : 0;
  return count;
}

/// Writes what has to come. Returns the tokens.
std::vector<Token> forced(ConstraintReader& reader, std::vector<Token>& output) {
  std::vector<Token> written;
  while (const auto only = reader.allowed(output).only()) {
    written.push_back(*only);
    output.push_back(*only);
  }
  return written;
}

TEST(ThoughtBudget, EndsThoughtsAfterItsTokensAndNoneBefore) {
  const std::vector<Token> thought = tokens("The fox went into the wood and thought about the tale");
  for (int budget = 0; budget <= static_cast<int>(thought.size()); ++budget) {
    const ThoughtBudget constraint(marks, Thinking::begun, budget, tokenizer(), vocabulary(), nullptr);
    const auto reader = constraint.reader();
    std::vector<Token> output;
    for (int i = 0; i < budget; ++i) {
      EXPECT_EQ(choices(*reader, output), vocabulary()) << "free before its end";
      output.push_back(thought[static_cast<std::size_t>(i)]);
    }
    if (budget < static_cast<int>(thought.size())) {
      std::vector<Token> longer = output;
      longer.push_back(thought[static_cast<std::size_t>(budget)]);
      EXPECT_FALSE(reader->possible(longer));
    }
    EXPECT_EQ(forced(*reader, output), tokens("</think>"));
    EXPECT_TRUE(reader->possible(output));
    EXPECT_EQ(choices(*reader, output), vocabulary()) << "free behind its end";
    EXPECT_FALSE(reader->complete(output));
  }
}

TEST(ThoughtBudget, CountsTheTokensOfThoughtsOnly) {
  const ThoughtBudget constraint(marks, Thinking::possible, 3, tokenizer(), vocabulary(), nullptr);
  const auto reader = constraint.reader();
  std::vector<Token> content = tokens("An answer without any thoughts in it");
  EXPECT_EQ(choices(*reader, content), vocabulary());
  std::vector<Token> output = tokens("<think>");
  const std::size_t begin = output.size();
  for (const Token token : tokens("one two three four")) {
    if (choices(*reader, output) != vocabulary()) break;
    output.push_back(token);
  }
  EXPECT_EQ(output.size(), begin + 3);
  EXPECT_EQ(forced(*reader, output), tokens("</think>"));
  std::vector<Token> ended = tokens("<think>a</think> and much more than three tokens");
  EXPECT_EQ(choices(*reader, ended), vocabulary()) << "they ended by themselves";
}

TEST(ThoughtBudget, WhatFollowsIsHeldToWhatItWouldBeHeldTo) {
  const auto trie = std::make_shared<const TokenTrie>(tokenizer(), vocabulary());
  const std::string gbnf = "root ::= [a-z ]* \"</think>\" (\"yes\" | \"no\")";
  const auto held = std::make_shared<GrammarConstraint>(std::make_shared<const Grammar>(Grammar::from_gbnf(gbnf, "g")),
                                                        trie, std::vector<Token>());
  const ThoughtBudget constraint(marks, Thinking::begun, 2, tokenizer(), vocabulary(), held);
  const auto reader = constraint.reader();
  std::vector<Token> output;
  EXPECT_LT(choices(*reader, output), vocabulary()) << "letters only";
  for (const Token token : tokens("a fox")) {
    if (output.size() < 2) output.push_back(token);
  }
  forced(*reader, output);
  EXPECT_TRUE(reader->possible(output));
  for (const Token token : tokens("yes")) output.push_back(token);
  EXPECT_TRUE(reader->complete(output));
}

/// Inside of a character, for example: there the mark would be no sentence of the grammar.
TEST(ThoughtBudget, WaitsUntilTheMarkMayCome) {
  const auto trie = std::make_shared<const TokenTrie>(tokenizer(), vocabulary());
  const auto held = std::make_shared<GrammarConstraint>(
      std::make_shared<const Grammar>(Grammar::from_gbnf("root ::= [a-z]{4} \"</think>\" \"ok\"", "g")), trie,
      std::vector<Token>());
  const ThoughtBudget constraint(marks, Thinking::begun, 1, tokenizer(), vocabulary(), held);
  const auto reader = constraint.reader();
  std::vector<Token> output;
  std::string text;
  while (!reader->complete(output)) {
    const TokenSet& set = reader->allowed(output);
    Token next = 0;
    while (next < vocabulary() && !set.has(next)) ++next;
    ASSERT_LT(next, vocabulary()) << "a dead end behind " << text;
    output.push_back(next);
    ASSERT_TRUE(reader->possible(output));
    tokenizer().append_bytes(next, false, text);
  }
  EXPECT_EQ(text.substr(4), "</think>ok");
}

}  // namespace
}  // namespace draftproof::test::thought_budget_test
