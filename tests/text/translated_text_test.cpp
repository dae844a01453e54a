// SPDX-License-Identifier: MIT
// Between the shipped vocabularies: 2048 tokens of BPE of bytes, and 512 SentencePiece pieces with byte tokens.
#include "ref/text/translated_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "ref/base/utf8.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::translated_text_test {
namespace {

const Tokenizer& bytes() {
  static const Tokenizer tokenizer = Tokenizer::load(test::fixtures() / "models/tale-target");
  return tokenizer;
}
const Tokenizer& pieces() {
  static const Tokenizer tokenizer = Tokenizer::load(test::fixtures() / "models/tale-llama");
  return tokenizer;
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 12; ++i) text += "Once upon a time Zoë of Grünau had " + std::to_string(i * 7919) + " cherries. ";
  return text;
}

const std::vector<std::string>& texts() {
  static const std::vector<std::string> list = {
      "Once upon a time there lived in Kestrel Bay a clockmaker named Greta Lindenwood.",
      "Long ago, near the mill of Grünau, there lived a shepherd called Émile.\n\nNoémie Hallbeck’s cherry pie",
      "x",
      " two  spaces   three",
      "日本語 and \U0001F600\U0001F600, then 12345678.",
      long_text()};
  return list;
}

TranslatedText translated(const Tokenizer& target, const Tokenizer& draft, std::span<const Token> tokens) {
  TranslatedText text(target, draft);
  for (const Token token : tokens) text.append(token);
  return text;
}

std::vector<Token> joined(std::vector<Token> tokens, std::span<const Token> more) {
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

using Entries = std::map<std::string, Token, std::less<>>;

/// The tokens that text may become, by their bytes.
Entries entries_of(const Tokenizer& tokenizer) {
  Entries entries;
  for (Token token = 0; token < tokenizer.vocabulary(); ++token) {
    if (!tokenizer.is_special(token)) entries.emplace(tokenizer.bytes_of(token), token);
  }
  return entries;
}

/// The tokens of the longest texts in the vocabulary that `text` begins with.
std::vector<Token> longest_tokens(const Tokenizer& tokenizer, std::string_view text) {
  static const Entries of_bytes = entries_of(bytes()), of_pieces = entries_of(pieces());
  const Entries& entries = &tokenizer == &bytes() ? of_bytes : of_pieces;
  std::vector<Token> tokens;
  while (!text.empty()) {
    std::size_t size = std::min<std::size_t>(text.size(), 40);
    while (size > 0 && !entries.contains(text.substr(0, size))) --size;
    if (size == 0) return {};
    tokens.push_back(entries.find(text.substr(0, size))->second);
    text.remove_prefix(size);
  }
  return tokens;
}

TEST(TranslatedText, IsWhatTheDraftsTokenizerEncodesFromTheBeginning) {
  for (const auto& [target, draft] : {std::pair(&bytes(), &pieces()), {&pieces(), &bytes()}, {&pieces(), &pieces()}}) {
    for (const std::string& text : texts()) {
      const std::vector<Token> tokens = target->encode(text);
      EXPECT_EQ(translated(*target, *draft, tokens).in_draft_tokens(), draft->encode(text)) << text;
    }
  }
}

TEST(TranslatedText, WaitsForTheBytesOfACharacter) {
  const std::vector<Token> tokens = bytes().encode("a\U0001F600", false);
  ASSERT_GT(tokens.size(), 2U);
  for (std::size_t size = 1; size < tokens.size(); ++size) {
    EXPECT_EQ(translated(bytes(), pieces(), std::span(tokens).first(size)).in_draft_tokens(), pieces().encode("a"));
  }
  EXPECT_EQ(translated(bytes(), pieces(), tokens).in_draft_tokens(), pieces().encode("a\U0001F600"));
}

TEST(TranslatedText, IsSpecialWhereTheTargetIsAndNowhereElse) {
  const std::vector<Token> special = bytes().encode("<|im_start|>user<|im_end|>", false, true);
  const std::vector<Token> ordinary = bytes().encode("<|im_start|>user<|im_end|>", false, false);
  ASSERT_NE(special, ordinary);
  EXPECT_EQ(translated(bytes(), bytes(), special).in_draft_tokens(), special);
  EXPECT_EQ(translated(bytes(), bytes(), ordinary).in_draft_tokens(), ordinary);
  EXPECT_EQ(translated(bytes(), pieces(), special).in_draft_tokens(), pieces().encode("<|im_start|>user<|im_end|>"));
}

TEST(TranslatedText, OfNothingIsWhatTheDraftPutsBeforeAText) {
  const std::vector<Token> bos = {1};
  EXPECT_EQ(translated(pieces(), pieces(), bos).in_draft_tokens(), bos);
  EXPECT_EQ(translated(pieces(), bytes(), bos).in_draft_tokens(), std::vector<Token>());
  EXPECT_EQ(translated(pieces(), pieces(), std::vector<Token>{1, 1}).in_draft_tokens(), (std::vector<Token>{1, 1}))
      << "the second one is part of the text";
}

/// The rest of a text, in the draft's tokens, becomes the rest of the text in the target's tokens, but for the last.
TEST(TranslatedContinuation, IsTheTextThatTheTargetsTokenizerWouldGoOnWith) {
  for (const auto& [target, draft] : {std::pair(&bytes(), &pieces()), {&pieces(), &bytes()}, {&bytes(), &bytes()}}) {
    for (const std::string& text : texts()) {
      const std::vector<Token> tokens = target->encode(text);
      for (std::size_t size = 1; size < tokens.size(); ++size) {
        const std::span<const Token> committed = std::span(tokens).first(size);
        std::string said;
        Detokenizer detokenizer(*target, true, TextPlace::beginning);
        for (const Token token : committed) detokenizer.append(token, said);
        const std::string whole = utf8::take_finished(said);
        ASSERT_TRUE(text.starts_with(whole));
        if (whole.empty() && size > 1) continue;  // a first token of nothing but the space that encoding has added
        const std::vector<Token> rest = longest_tokens(*draft, std::string_view(text).substr(whole.size()));
        ASSERT_FALSE(rest.empty());

        const TranslatedText so_far = translated(*target, *draft, committed);
        TranslatedContinuation continuation(so_far);
        for (const Token token : rest) ASSERT_TRUE(continuation.append(token));
        const std::vector<Token> expected(tokens.begin() + static_cast<std::ptrdiff_t>(size), tokens.end() - 1);
        ASSERT_EQ(continuation.in_target_tokens(), expected) << "after " << whole;
      }
    }
  }
}

TEST(TranslatedContinuation, NeedsABoundaryOfTokensWhereTheTextEndsAndNoneBefore) {
  const std::vector<Token> rest = pieces().encode("upon a time", false);
  std::vector<Token> letters;
  for (const char c : std::string("Once ")) letters.push_back(bytes().encode(std::string(1, c), false).front());
  ASSERT_NE(letters, bytes().encode("Once ", false)) << "not as the tokenizer would divide it";
  const auto continued = [&](std::span<const Token> committed, const std::string& text) {
    const TranslatedText so_far = translated(bytes(), pieces(), committed);
    TranslatedContinuation continuation(so_far);
    for (const Token token : longest_tokens(pieces(), text)) EXPECT_TRUE(continuation.append(token));
    return continuation.in_target_tokens();
  };
  std::vector<Token> expected = bytes().encode(" upon a time", false);
  expected.pop_back();
  EXPECT_EQ(continued(std::span(letters).first(4), " upon a time"), expected);
  EXPECT_EQ(continued(std::span(letters).first(3), "e upon a time"), std::vector<Token>()) << "'Once' is one token";
}

TEST(TranslatedContinuation, EndsAtASpecialTokenOrOneWithoutText) {
  const std::vector<Token> committed = bytes().encode("the end", false);
  const TranslatedText own = translated(bytes(), bytes(), committed);
  TranslatedContinuation same(own);
  const std::vector<Token> dot = bytes().encode(".", false);
  EXPECT_TRUE(same.append(dot.front()));
  EXPECT_EQ(same.in_target_tokens(), std::vector<Token>()) << "more text could make it longer";
  EXPECT_FALSE(same.append(2044));
  EXPECT_EQ(same.in_target_tokens(), joined(dot, std::vector<Token>{2044}));

  const TranslatedText other = translated(bytes(), pieces(), committed);
  TranslatedContinuation without(other);
  EXPECT_TRUE(without.append(longest_tokens(pieces(), ".").front()));
  EXPECT_FALSE(without.append(2)) << "</s>, which the target does not have";
  EXPECT_EQ(without.in_target_tokens(), dot);
  TranslatedContinuation empty(other);
  EXPECT_FALSE(empty.append(600)) << "no token of the tokenizer";
  EXPECT_EQ(empty.in_target_tokens(), std::vector<Token>());
}

TEST(TranslatedContinuation, FinishesACharacterOrEnds) {
  const std::vector<Token> tokens = bytes().encode("a\U0001F600b c", false);
  std::size_t size = 2;  // "a" and the first bytes
  const TranslatedText so_far = translated(bytes(), pieces(), std::span(tokens).first(size));
  TranslatedContinuation right(so_far);
  for (const Token token : longest_tokens(pieces(), "\U0001F600b c")) ASSERT_TRUE(right.append(token));
  EXPECT_EQ(right.in_target_tokens(), std::vector<Token>(tokens.begin() + 2, tokens.end() - 1));
  TranslatedContinuation wrong(so_far);
  EXPECT_FALSE(wrong.append(longest_tokens(pieces(), "b").front()));
  EXPECT_EQ(wrong.in_target_tokens(), std::vector<Token>());
}

/// Any tokens, most of whose bytes are no UTF-8 together: what the draft reads is a function of them, and their
/// translation never fails.
TEST(TranslatedText, TakesAnyTokens) {
  std::uint32_t state = 1;
  const auto next = [&](int below) {
    state = state * 1664525U + 1013904223U;
    return static_cast<Token>((state >> 8) % static_cast<std::uint32_t>(below));
  };
  for (const auto& [target, draft] : {std::pair(&bytes(), &pieces()), {&pieces(), &bytes()}}) {
    for (int repeat = 0; repeat < 300; ++repeat) {
      TranslatedText text(*target, *draft);
      std::vector<Token> tokens;
      for (int i = next(60); i >= 0; --i) {
        tokens.push_back(repeat % 2 == 0 ? next(target->vocabulary() + 9) : next(300));  // bytes are the first ones
        text.append(tokens.back());
      }
      EXPECT_EQ(text.in_draft_tokens(), translated(*target, *draft, tokens).in_draft_tokens());
      TranslatedContinuation continuation(text);
      for (int i = 0; i < 8 && continuation.append(next(draft->vocabulary() + 9)); ++i) continuation.in_target_tokens();
    }
  }
}

}  // namespace
}  // namespace draftproof::translated_text_test
