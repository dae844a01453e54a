// SPDX-License-Identifier: MIT
#include "ref/grammar/grammar_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "ref/base/error.h"
#include "ref/grammar/grammar_states.h"
#include "ref/grammar/json_schema.h"
#include "tests/acceptance/numbers.h"

namespace draftproof::grammar_constraint_test {
namespace {

const std::string source = DRAFTPROOF_SOURCE_DIR;

std::shared_ptr<const Grammar> grammar_of(const std::string& text) {
  return std::make_shared<Grammar>(Grammar::from_gbnf(text, "the grammar"));
}

/// Without anything that is remembered: whether the bytes of an output lead somewhere, and what may follow.
struct Naive {
  const Grammar& grammar;
  const TokenTrie& tokens;
  std::vector<Token> stops;

  bool is_stop(Token token) const { return std::ranges::find(stops, token) != stops.end(); }
  bool possible(std::span<const Token> output) const {
    GrammarStates states(grammar);
    int state = states.start();
    bool stopped = false;
    for (const Token token : output) {
      if (stopped) return false;
      if (is_stop(token)) {
        if (!states.accepts(state)) return false;
        stopped = true;
        continue;
      }
      if (tokens.bytes(token).empty()) return false;
      for (const char byte : tokens.bytes(token)) state = states.next(state, static_cast<unsigned char>(byte));
      if (state == GrammarStates::dead) return false;
    }
    return true;
  }
};

const std::vector<std::string> few = {"a", "b", "ab", "ba", "aa", "", "c", "abc", "b", "</s>", "\xC3", "\xA4"};

TEST(GrammarConstraint, AllowsExactlyTheTokensThatKeepTheOutputPossible) {
  const auto tokens = std::make_shared<TokenTrie>(few);
  const std::vector<Token> stops = {9};
  Numbers numbers{5};
  int allowed = 0;
  for (const char* const text : {"root ::= \"ab\"*", "root ::= \"a\" root \"b\" | \"c\"", "root ::= [abc]{1,5}",
                                 "root ::= (\"abc\" | \"ab\" | \"ba\")+ \"c\"", "root ::= [a\xC3\xA4]* \"b\"?",
                                 "root ::= \"a\"? \"b\"? \"c\"?"}) {
    const auto grammar = grammar_of(text);
    const Naive naive{*grammar, *tokens, stops};
    const auto reader = GrammarConstraint(grammar, tokens, stops).reader();
    for (int round = 0; round < 300; ++round) {
      std::vector<Token> output;
      while (numbers.next() % 6 != 0) {
        const TokenSet set = reader->allowed(output);  // a copy
        const bool complete = reader->complete(output);
        ASSERT_EQ(reader->possible(output), naive.possible(output));
        for (Token token = 0; token < static_cast<Token>(few.size()); ++token) {
          std::vector<Token> longer = output;
          longer.push_back(token);
          const bool may = naive.possible(longer) && !complete;
          ASSERT_EQ(set.has(token), may) << text << " " << token;
          allowed += may;
          ASSERT_EQ(reader->possible(longer), naive.possible(longer));
        }
        // Mostly on from what is allowed, at times from what is not; other outputs are asked for in between.
        output.push_back(static_cast<Token>(numbers.next() % few.size()));
        if (!naive.possible(output) && numbers.next() % 8 != 0) output.pop_back();
      }
    }
  }
  EXPECT_GT(allowed, 2000);
}

TEST(GrammarConstraint, IsCompleteWhereNothingMayFollowAndElseAStopTokenEndsIt) {
  const auto tokens = std::make_shared<TokenTrie>(few);
  const auto reader = GrammarConstraint(grammar_of("root ::= \"a\" \"b\"?"), tokens, {9}).reader();
  const auto has = [&](std::vector<Token> output, Token token) { return reader->allowed(output).has(token); };
  EXPECT_FALSE(has({}, 9));
  EXPECT_TRUE(has({0}, 9));
  EXPECT_TRUE(has({0}, 1));
  EXPECT_FALSE(reader->complete(std::vector<Token>{0}));
  EXPECT_TRUE(reader->complete(std::vector<Token>{0, 1}));
  EXPECT_TRUE(reader->complete(std::vector<Token>{2}));
  EXPECT_TRUE(reader->allowed(std::vector<Token>{2}).empty());
  EXPECT_TRUE(reader->possible(std::vector<Token>{0, 9}));
  EXPECT_FALSE(reader->possible(std::vector<Token>{0, 9, 1}));
  EXPECT_FALSE(reader->complete(std::vector<Token>{0, 9}));
}

TEST(GrammarConstraint, ForgettingWhatItKnowsChangesNothing) {
  // More different states than are kept: the automaton is built again and again.
  const auto tokens = std::make_shared<TokenTrie>(few);
  const auto grammar = grammar_of("root ::= \"a\" root \"b\" | \"c\"");
  const auto reader = GrammarConstraint(grammar, tokens, {}).reader();
  std::vector<Token> output;
  for (int i = 0; i < 3000; ++i) {
    const TokenSet& set = reader->allowed(output);
    ASSERT_TRUE(set.has(0) && set.has(6) && !set.has(1)) << i;
    output.push_back(0);
  }
  output.push_back(6);
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(reader->allowed(output).only().has_value(), false) << "two tokens are b";
    ASSERT_FALSE(reader->complete(output));
    output.push_back(1);
  }
  EXPECT_TRUE(reader->complete(output));
}

TEST(GrammarConstraint, OfARealVocabularyGivesJson) {
  const Tokenizer tokenizer = Tokenizer::load(source + "/fixtures/models/tale-target");
  const auto tokens = std::make_shared<TokenTrie>(tokenizer, tokenizer.vocabulary());
  const auto grammar = grammar_of(
      schema_to_gbnf(Json::parse(R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},
                      "required":["name","age"]})",
                                 "the schema")));
  const auto reader = GrammarConstraint(grammar, tokens, {}).reader();
  const std::vector<Token> text = tokenizer.encode(R"({"name": "Ida", "age": 7})", false);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto before = std::span(text).first(i);
    ASSERT_TRUE(reader->possible(before));
    ASSERT_TRUE(reader->allowed(before).has(text[i])) << i;
    for (Token token = 0; token < tokenizer.vocabulary(); ++token) {
      ASSERT_FALSE(tokenizer.is_special(token) && reader->allowed(before).has(token));
    }
  }
  EXPECT_TRUE(reader->complete(text));
}

/// Masks are put together of parts that are found once for all grammars; every token that they allow or refuse is read
/// byte by byte here.
TEST(GrammarConstraint, MasksOfPartsAllowWhatReadingEveryTokenAllows) {
  Numbers numbers{5};
  const std::vector<std::string> pieces = {"a",
                                           "b",
                                           "Z",
                                           "7",
                                           " ",
                                           "-",
                                           "\"",
                                           "\\",
                                           "\n",
                                           ",",
                                           ":",
                                           "{",
                                           "[",
                                           "}",
                                           "]",
                                           "\\n",
                                           "\xC3\xA4",
                                           "\xE4\xB8\x96",
                                           "\xF0\x9F\x98\x80",
                                           "\xE2\x80\xA8",
                                           "\xE2\x80",
                                           "\xA4",
                                           "\xF0\x9F",
                                           "\xC3",
                                           "\xFF",
                                           "u00e4"};
  std::vector<std::string> words(pieces);
  for (int i = 0; i < 1500; ++i) {
    std::string word;
    for (std::uint64_t left = 2 + numbers.next() % 5; left > 0; --left) word += pieces[numbers.next() % pieces.size()];
    words.push_back(word);
  }
  const auto tokens = std::make_shared<TokenTrie>(words);
  const std::vector<std::string> schemas = {
      R"({"type":"array","items":{"type":"string"}})",
      R"({"type":"array","items":{"type":"string","maxLength":4}})",
      R"({"type":"array","items":{"type":"string","pattern":"^.{0,6}$"}})",
      R"({"type":"array","items":{"type":"string","pattern":"^[aZ\\u00e4\\u4e16]+(-[a-z7]+)*$"}})",
      R"({"type":"object","additionalProperties":{"type":"string","minLength":2}})",
      R"({"type":"array","items":{"anyOf":[{"type":"string","maxLength":2},{"type":"string","pattern":"^a"}]}})",
  };
  int masks = 0;
  for (const std::string& schema : schemas) {
    const auto grammar = grammar_of(schema_to_gbnf(Json::parse(schema, "the schema")));
    const auto reader = GrammarConstraint(grammar, tokens, {}).reader();
    for (int walk = 0; walk < 12; ++walk) {
      std::vector<Token> output;
      for (int length = 0; length < 12 && !reader->complete(output); ++length) {
        const TokenSet allowed = reader->allowed(output);
        ++masks;
        std::vector<Token> list;
        for (Token token = 0; token < tokens->vocabulary(); ++token) {
          if (allowed.has(token)) list.push_back(token);
          std::vector<Token> longer = output;
          longer.push_back(token);
          ASSERT_EQ(allowed.has(token), reader->possible(longer))
              << schema << " " << words[static_cast<std::size_t>(token)];
        }
        ASSERT_FALSE(list.empty()) << schema;
        output.push_back(list[numbers.next() % list.size()]);
      }
    }
  }
  EXPECT_GT(masks, 400);
}

/// A vocabulary of 150 000 tokens of one to ten letters and signs; the time of a set that is made, and of one that is
/// known.
TEST(GrammarConstraintSlow, ASetIsMadeInMillisecondsAndFoundInMicroseconds) {
  Numbers numbers{9};
  std::vector<std::string> words;
  for (int i = 0; i < 150000; ++i) {
    std::string word = numbers.next() % 2 == 0 ? " " : "";
    for (std::uint64_t left = 1 + numbers.next() % 9; left > 0; --left) {
      word += "etaoinshrdlucmfwypvbgkqjxz0123456789\",:{}[]"[numbers.next() % 43];
    }
    words.push_back(word);
  }
  const auto tokens = std::make_shared<TokenTrie>(words);
  const auto grammar = grammar_of(json_object_gbnf());
  const auto reader = GrammarConstraint(grammar, tokens, {}).reader();
  std::vector<Token> output;
  const auto add = [&](const std::string& word) {
    words.push_back(word);
    output.push_back(static_cast<Token>(std::ranges::find(words, word) - words.begin()));
  };
  add("{");
  ASSERT_LT(output[0], 150000);
  add("\"");
  const auto seconds = [&] {
    const auto begin = std::chrono::steady_clock::now();
    reader->allowed(output);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double made = seconds();
  const double known = seconds();
  std::printf("[ figures  ] a set of 150 000 tokens within a JSON string: made in %.2f ms, found in %.2f us\n",
              made * 1e3, known * 1e6);
  EXPECT_LT(made, 0.5);
  EXPECT_LT(known, made / 20);
}

/// By its number a token may come that the bytes around it do not spell, and no other.
TEST(GrammarConstraint, TokensOfTheGrammarAreTokensWhateverTheirBytesAre) {
  const auto tokens = std::make_shared<TokenTrie>(few);  // token 5 has no bytes, 1 and 8 the same
  const std::vector<Token> stops = {9};
  const auto reader = GrammarConstraint(grammar_of("root ::= \"a\" <[5]> \"b\" !<[1]>* <[8]>"), tokens, stops).reader();
  const auto allowed = [&](std::vector<Token> output) {
    std::vector<Token> list;
    for (Token token = 0; token < 12; ++token) {
      if (reader->allowed(output).has(token)) list.push_back(token);
    }
    return list;
  };
  using Tokens = std::vector<Token>;
  EXPECT_EQ(allowed({}), (Tokens{0}));
  EXPECT_EQ(allowed({0}), (Tokens{5}));
  EXPECT_EQ(allowed({0, 5}), (Tokens{1, 8})) << "both spell a b";
  const Tokens others = {0, 2, 3, 4, 5, 6, 7, 8, 10, 11};
  EXPECT_EQ(allowed({0, 5, 1}), others) << "all but one, and no stop token";
  EXPECT_EQ(allowed({0, 5, 1, 2, 5}), others);
  Tokens ended = others;
  ended.insert(ended.begin() + 8, 9);
  EXPECT_EQ(allowed({0, 5, 1, 8}), ended) << "8 may have been the last, or one of the others";
  EXPECT_FALSE(reader->possible(Tokens{0, 5, 1, 1}));
  EXPECT_FALSE(reader->possible(Tokens{0, 1}));
}

TEST(Grammar, TokensAreNumbersOrNamesOfTheVocabulary) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      grammar_of(text);
    } catch (const Error& wrong) {
      return wrong.what();
    }
    return "";
  };
  EXPECT_THAT(error("root ::= <think>"), testing::HasSubstr("nothing says its number"));
  EXPECT_THAT(error("root ::= <[7"), testing::HasSubstr("without an end"));
  EXPECT_THAT(error("root ::= !\"a\""), testing::HasSubstr("no <token> follows"));
  const Tokenizer tale = Tokenizer::load(source + "/fixtures/models/tale-target");
  const Grammar grammar = Grammar::from_gbnf("root ::= <|im_start|>", "g", &tale);
  EXPECT_EQ(grammar.at(grammar.alternatives(grammar.root())[0]).index, tale.find("<|im_start|>"));
  EXPECT_THROW(Grammar::from_gbnf("root ::= <|im_started|>", "g", &tale), Error);
}

TEST(Grammar, RootMayHaveAnotherName) {
  EXPECT_EQ(with_root_named("root ::= \"root\" root-2 | [root] # root\nroot-2 ::= root? <root>", "top"),
            "top ::= \"root\" root-2 | [root] # root\nroot-2 ::= top? <root>");
}

}  // namespace
}  // namespace draftproof::grammar_constraint_test
