// SPDX-License-Identifier: MIT
#include "ref/grammar/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/grammar/grammar_states.h"

namespace draftproof::grammar_test {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    Grammar::from_gbnf(text, "the grammar's file");
  } catch (const Error& wrong) {
    return wrong.what();
  }
  return "";
}

bool matches(const Grammar& grammar, std::string_view text) {
  GrammarStates states(grammar);
  int state = states.start();
  for (const char byte : text) state = states.next(state, static_cast<unsigned char>(byte));
  return states.accepts(state);
}
bool matches(const std::string& grammar, std::string_view text) {
  return matches(Grammar::from_gbnf(grammar, ""), text);
}

/// All strings over `alphabet` of at most `max` characters.
std::vector<std::string> all_strings(std::string_view alphabet, int max) {
  std::vector<std::string> all = {""};
  for (std::size_t begin = 0, length = 0; static_cast<int>(length) < max; ++length) {
    const std::size_t end = all.size();
    for (; begin < end; ++begin) {
      for (const char c : alphabet) all.push_back(all[begin] + c);
    }
  }
  return all;
}

struct Language {
  std::string grammar;
  std::function<bool(const std::string&)> has;
};

TEST(Grammar, HasExactlyTheSentencesOfItsLanguage) {
  const auto count = [](const std::string& s, char c) { return std::ranges::count(s, c); };
  const std::vector<Language> languages = {
      {R"(root ::= "a"*)", [&](auto& s) { return count(s, 'b') == 0; }},
      {R"(root ::= "ab"+)",
       [](auto& s) {
         if (s.empty() || s.size() % 2 != 0) return false;
         for (std::size_t i = 0; i < s.size(); ++i)
           if (s[i] != (i % 2 == 0 ? 'a' : 'b')) return false;
         return true;
       }},
      {R"(root ::= "a"? "b"?)", [](auto& s) { return s == "" || s == "a" || s == "b" || s == "ab"; }},
      {R"(root ::= "a"{2,4})", [&](auto& s) { return count(s, 'b') == 0 && s.size() >= 2 && s.size() <= 4; }},
      {R"(root ::= [ab]{3})", [](auto& s) { return s.size() == 3; }},
      {R"(root ::= [ab]{2,} "b")", [](auto& s) { return s.size() >= 3 && s.back() == 'b'; }},
      {"root ::= \"a\" root \"b\" | \"\"",
       [&](auto& s) {
         const auto n = count(s, 'a');
         return s == std::string(static_cast<std::size_t>(n), 'a') + std::string(static_cast<std::size_t>(n), 'b');
       }},
      {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"\"",
       [](auto& s) {  // even palindromes
         return s.size() % 2 == 0 && std::equal(s.begin(), s.end(), s.rbegin());
       }},
      {"root ::= (\"a\" | \"b\" \"b\")*",
       [](auto& s) {
         for (std::size_t i = 0; i < s.size();) {
           if (s[i] == 'a') {
             ++i;
             continue;
           }
           if (i + 1 >= s.size() || s[i + 1] != 'b') return false;
           i += 2;
         }
         return true;
       }},
      {"root ::= x x # a comment\nx ::= [^a] | \"aa\"",
       [](auto& s) { return s == "bb" || s == "baa" || s == "aab" || s == "aaaa"; }},
      {"root ::=\n  (\n \"a\"\n | \"b\" root\n ) tail\ntail ::= |\n \"b\"",
       [](auto& s) {
         // b^n a b^m with m at most n + 1
         const auto a = s.find('a');
         return a != std::string::npos && s.find('a', a + 1) == std::string::npos && s.size() - a - 1 <= a + 1;
       }},
  };
  for (const Language& language : languages) {
    const Grammar grammar = Grammar::from_gbnf(language.grammar, "");
    for (const std::string& text : all_strings("ab", 8)) {
      EXPECT_EQ(matches(grammar, text), language.has(text)) << language.grammar << " of " << text;
    }
  }
}

TEST(Grammar, CharactersAreTheirUtf8ForEveryCodePoint) {
  const Grammar any = Grammar::from_gbnf("root ::= .", "");
  const Grammar some = Grammar::from_gbnf(R"(root ::= [a-z\u00e4\u0400-\u04ff\U0001F600-\U0001F64F])", "");
  const Grammar others = Grammar::from_gbnf(R"(root ::= [^a-z\u00e4\u0400-\u04ff\U0001F600-\U0001F64F])", "");
  GrammarStates any_states(any);
  GrammarStates some_states(some);
  GrammarStates other_states(others);
  const auto has = [](GrammarStates& states, const std::string& bytes) {
    int state = states.start();
    for (const char byte : bytes) state = states.next(state, static_cast<unsigned char>(byte));
    return states.complete(state);
  };
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    utf8::append(bytes, c);
    const bool in = (c >= 'a' && c <= 'z') || c == 0xE4 || (c >= 0x400 && c <= 0x4FF) || (c >= 0x1F600 && c <= 0x1F64F);
    ASSERT_TRUE(has(any_states, bytes)) << static_cast<unsigned>(c);
    ASSERT_EQ(has(some_states, bytes), in) << static_cast<unsigned>(c);
    ASSERT_EQ(has(other_states, bytes), !in) << static_cast<unsigned>(c);
  }
  for (const std::string_view broken : {"\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF", "\xC3"}) {
    EXPECT_FALSE(matches(any, broken));
  }
}

TEST(Grammar, EscapesAreRead) {
  EXPECT_TRUE(matches(R"(root ::= "\n\t\"\\\x41\u00e4")", "\n\t\"\\A\xC3\xA4"));
  EXPECT_TRUE(matches(R"(root ::= [\]\-\\]+)", "]-\\"));
  EXPECT_TRUE(matches(R"(root ::= [a-]+)", "a-a"));
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Grammar, WhatIsWrongIsSaidWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "no rule named root"},
      {"root ::= x", "names the rule 'x', which does not exist"},
      {"root ::= \"a\"\nroot ::= \"b\"", "two rules named 'root'"},
      {"root ::= \"a", "without an end"},
      {"root ::= [a", "without an end"},
      {"root ::= []", "class without a character"},
      {"root ::= [b-a]", "ends before it begins"},
      {"root ::= (\"a\"", "closing parenthesis"},
      {"root ::= \"a\"{2", "closing brace"},
      {"root ::= \"a\"{3,2}", "most is less than its least"},
      {"root ::= \"a\"{x}", "lacks a number"},
      {"root ::= \"\\q\"", "escape that does not exist"},
      {"root ::= \"\\ud800\"", "no character"},
      {"root ::= \"\\x4\"", "too few hexadecimal digits"},
      {"root = \"a\"", "lacks ::="},
      {"root ::= \"a\" )", "does not belong to a rule"},
      {"root ::= root \"a\" | \"b\"", "left recursion"},
      {"root ::= x\nx ::= y? root\ny ::= \"a\"", "left recursion"},
      {"root ::= (\"a\"?)*", "repeats something that can be empty"},
      {"root ::= \"a\"{999999999}", "too often"},
      {"root ::= " + repeated("\"a\"{1000} ", 300), "too large"},
      {"root ::= " + std::string(1000, '(') + "\"a\"" + std::string(1000, ')'), "nests too deep"},
      {"root ::= \"\xFF\"", "not UTF-8"},
      {std::string(Grammar::text_max + 1, ' '), "longer than 1 MiB"},
  };
  for (const auto& [text, what] : rows) EXPECT_THAT(error_of(text), HasSubstr(what)) << text.substr(0, 60);
  EXPECT_THAT(error_of("root ::= \"a\"\n\n!"), HasSubstr("the grammar's file: line 3: "));
}

TEST(GrammarStates, ManyRepetitionsAreWrittenAsBlocksAndAreExact) {
  struct Row {
    const char* counts;
    int min;
    int max;
  };
  for (const auto& [counts, min, max] :
       {Row{"{0,1025}", 0, 1025}, Row{"{1500,4001}", 1500, 4001}, Row{"{2000}", 2000, 2000}, Row{"{1100,}", 1100, 5000},
        Row{"{7,2603}", 7, 2603}}) {
    const Grammar grammar = Grammar::from_gbnf(std::string("root ::= \"ab\"") + counts, "");
    GrammarStates states(grammar);
    int state = states.start();
    for (int count = 0; count <= 4500; ++count) {
      ASSERT_EQ(states.accepts(state), count >= min && count <= max) << counts << " " << count;
      state = states.next(states.next(state, 'a'), 'b');
    }
  }
  EXPECT_NO_THROW(Grammar::from_gbnf("root ::= \"a\"{0,200000} \"b\"{200000}", ""));
}

TEST(GrammarStates, AGrammarThatIsTooAmbiguousIsRefusedInReasonableTime) {
  // Every prefix can be divided in exponentially many ways, and the stacks differ.
  const std::string grammar =
      "root ::= a | b\na ::= \"x\" root \"y\" | \"x\" root \"z\" | \"x\"\n"
      "b ::= \"x\" root \"w\" | \"x\" root \"v\" | \"x\"";
  const Grammar compiled = Grammar::from_gbnf(grammar, "");
  GrammarStates states(compiled);
  EXPECT_THROW(
      {
        int state = states.start();
        for (int i = 0; i < 100; ++i) state = states.next(state, 'x');
      },
      Error);
}

TEST(GrammarStates, DeepNestingIsReadInLinearSpace) {
  const Grammar grammar = Grammar::from_gbnf("root ::= \"[\" root* \"]\"", "");
  GrammarStates states(grammar);
  int state = states.start();
  for (int i = 0; i < 20000; ++i) state = states.next(state, '[');
  for (int i = 0; i < 20000; ++i) {
    ASSERT_FALSE(states.accepts(state));
    state = states.next(state, ']');
  }
  EXPECT_TRUE(states.complete(state));
}

TEST(GrammarStates, ARepetitionHasOneState) {
  const Grammar grammar = Grammar::from_gbnf("root ::= \"(\" [a-z]* \")\"", "");
  GrammarStates states(grammar);
  int state = states.next(states.start(), '(');
  for (int i = 0; i < 100; ++i) {
    const int next = states.next(state, static_cast<unsigned char>('a' + i % 26));
    EXPECT_TRUE(i == 0 || next == state);
    state = next;
  }
}

}  // namespace
}  // namespace draftproof::grammar_test
