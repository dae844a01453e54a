// SPDX-License-Identifier: MIT
// Properties of any tokenizer, and added tokens.
#include "ref/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <map>

#include "ref/base/utf8.h"
#include "ref/text/normalizer.h"
#include "ref/text/unicode.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::tokenizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A tokenizer in fixtures/external.
const Tokenizer& fixture(const std::string& name) {
  static std::map<std::string, Tokenizer> loaded;
  const auto known = loaded.find(name);
  if (known != loaded.end()) return known->second;
  const auto folder = test::fixtures() / "external" / name;
  const auto gguf = folder / "vocabulary.gguf";
  return loaded.emplace(name, Tokenizer::load(std::filesystem::exists(gguf) ? gguf : folder)).first->second;
}

const std::vector<std::string> of_bytes = {"tokenizers/qwen",   "tokenizers/gpt2", "tokenizers/llama3",
                                           "tokenizers/qwen35", "tokenizers/nemo", "tokenizers/deepseek3"};
// Those that lose nothing but the difference between a space and its mark.
const std::vector<std::string> of_characters = {
    "tokenizers-characters/llama-model",        "tokenizers-characters/llama-gguf",
    "tokenizers-characters/llama-prepend",      "tokenizers-characters/gemma-model",
    "tokenizers-characters/gemma-gguf",         "tokenizers-characters/gemma-split",
    "tokenizers-characters/unigram-bytes-model"};
const std::vector<std::string> that_lose_more = {
    "tokenizers-characters/llama-metaspace", "tokenizers-characters/no-bytes-model",
    "tokenizers-characters/t5-model",        "tokenizers-characters/t5-gguf",
    "tokenizers-characters/t5-unigram",      "tokenizers-characters/unigram-bytes-normalized"};

rc::Gen<std::string> any_name() {
  return rc::gen::oneOf(rc::gen::elementOf(of_bytes), rc::gen::elementOf(of_characters),
                        rc::gen::elementOf(that_lose_more));
}

/// Text that covers the alternatives of the expressions: contractions, runs of space, digits, marks to compose, any
/// character.
rc::Gen<std::string> any_text() {
  const auto fragments =
      rc::gen::elementOf(std::vector<std::string>{"'s",          "'LL",    "'\u017F", " ",      "   ",
                                                  "\n",          "\r\n",   "\t",      "\u00A0", "\u0085",
                                                  "\u180E",      "\u3000", "e\u0301", "\u0301", "\u1112\u1161\u11AB",
                                                  "\u0344",      "\u2126", "the",     " the",   "123",
                                                  "½",           "_",      "...",     "世界",   "😀",
                                                  "👩‍💻", "<|",     "a"});
  const auto character = rc::gen::map(rc::gen::inRange<std::uint32_t>(0, 0x110000 - 0x800), [](std::uint32_t value) {
    std::string text;
    utf8::append(text, value < 0xD800 ? value : value + 0x800);
    return text;
  });
  const auto low = rc::gen::map(rc::gen::inRange<std::uint32_t>(0, 0x600), [](std::uint32_t value) {
    std::string text;
    utf8::append(text, value);
    return text;
  });
  const auto parts = rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(fragments, fragments, low, character));
  return rc::gen::map(parts, [](const std::vector<std::string>& drawn) {
    std::string text;
    for (const std::string& part : drawn) text += part;
    return text;
  });
}

RC_GTEST_PROP(TokenizerProperties, DecodingGivesTheTextBack, ()) {
  const auto name = *rc::gen::elementOf(of_bytes);
  const auto text = *any_text();
  const Tokenizer& tokenizer = fixture(name);
  const bool composes = name.starts_with("tokenizers/qwen");
  RC_ASSERT(tokenizer.decode(tokenizer.encode(text)) ==
            (composes ? unicode::normalized(unicode::Form::nfc, text) : text));
}

RC_GTEST_PROP(TokenizerProperties, DecodingCharactersGivesTheTextBack, ()) {
  const Tokenizer& tokenizer = fixture(*rc::gen::elementOf(of_characters));
  const auto text = *any_text();
  MatchBudget budget(text.size());
  Normalizer spaces;
  spaces.add(normalizers::replace(std::string(space_mark), " "));
  RC_ASSERT(tokenizer.decode(tokenizer.encode(text)) == spaces.apply(text, budget));
}

/// Texts of special tokens between others.
rc::Gen<std::string> text_with_special(const Tokenizer& tokenizer) {
  std::vector<std::string> special = {" ", "a", "<", ">"};
  for (Token token = 0; token < tokenizer.vocabulary(); ++token) {
    if (tokenizer.is_special(token)) special.push_back(tokenizer.bytes_of(token));
  }
  const auto part = rc::gen::oneOf(rc::gen::elementOf(special), any_text());
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(part), [](const auto& drawn) {
    std::string text;
    for (const std::string& one : drawn) text += one;
    return text;
  });
}

RC_GTEST_PROP(TokenizerProperties, TextBecomesASpecialTokenOnRequestOnly, ()) {
  const Tokenizer& tokenizer = fixture(*any_name());
  const auto text = *text_with_special(tokenizer);
  const Token unknown = tokenizer.find("<unk>");
  for (const Token token : tokenizer.encode(text, false)) RC_ASSERT(token == unknown || !tokenizer.is_special(token));
}

RC_GTEST_PROP(TokenizerProperties, WhatIsDecodedGoesOnFromAnyToken, ()) {
  const Tokenizer& tokenizer = fixture(*any_name());
  const auto tokens = tokenizer.encode(*any_text());
  const auto cut = *rc::gen::inRange<std::size_t>(0, tokens.size() + 1);
  const StopStrings none;
  TextStream begun(tokenizer, none);
  std::string before;
  for (std::size_t i = 0; i < cut; ++i) before += begun.push(tokens[i]);
  if (begun.finish() != "" || before.empty()) return;  // cut inside a character, or before the text
  TextStream rest(tokenizer, none, true, TextPlace::continuation);
  for (std::size_t i = cut; i < tokens.size(); ++i) before += rest.push(tokens[i]);
  RC_ASSERT(before + rest.finish() == tokenizer.decode(tokens));
}

RC_GTEST_PROP(TokenizerProperties, BytesAreEncodedWhenTheyAreUtf8AndRefusedOtherwise, ()) {
  const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  const Tokenizer& tokenizer = fixture(*any_name());
  const std::string error = test::error_of([&] { tokenizer.encode(bytes); });
  RC_ASSERT(error.empty() == utf8::is_valid(bytes));
}

RC_GTEST_PROP(TokenizerProperties, StreamedPiecesAreUtf8AndJoinToTheDecodedText, ()) {
  const Tokenizer& tokenizer = fixture(*any_name());
  const auto skip_special = *rc::gen::arbitrary<bool>();
  // Often single bytes, so that characters are split; a few tokens beyond the vocabulary.
  const auto token =
      rc::gen::oneOf(rc::gen::inRange<Token>(0, 256), rc::gen::inRange<Token>(0, tokenizer.vocabulary() + 5));
  const auto tokens = *rc::gen::container<std::vector<Token>>(token);
  const StopStrings none;
  TextStream stream(tokenizer, none, skip_special);
  std::string joined;
  for (const Token one : tokens) {
    const std::string piece = stream.push(one);
    RC_ASSERT(utf8::is_valid(piece));
    joined += piece;
  }
  const std::string rest = stream.finish();
  RC_ASSERT(utf8::is_valid(rest));
  RC_ASSERT(joined + rest == tokenizer.decode(tokens, skip_special));
}

TEST(Tokenizer, RejectsTokensOutsideTheVocabulary) {
  const Tokenizer& tokenizer = fixture("tokenizers/qwen");
  const int vocabulary = tokenizer.vocabulary();
  EXPECT_EQ(vocabulary, 399);
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{vocabulary, vocabulary + 1000}), "");
  EXPECT_THROW(tokenizer.decode(std::vector<Token>{-1}), Error);
  EXPECT_THROW(tokenizer.bytes_of(-1), Error);
  EXPECT_THROW(tokenizer.bytes_of(vocabulary), Error);
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_FALSE(tokenizer.is_special(vocabulary));
  EXPECT_EQ(tokenizer.bytes_of(tokenizer.find("<|im_end|>")), "<|im_end|>");
  EXPECT_EQ(tokenizer.bytes_of(tokenizer.find("Ġt")), " t");
  EXPECT_EQ(tokenizer.find("no such token"), -1);
  EXPECT_TRUE(tokenizer.is_special(tokenizer.find("<|im_end|>")));
  EXPECT_FALSE(tokenizer.is_special(tokenizer.find("<think>")));
}

TEST(Tokenizer, EncodesLongTextsInNearLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& name : {of_bytes[0], of_bytes[2], of_characters[0], of_characters[5], of_characters[6]}) {
    const Tokenizer& tokenizer = fixture(name);
    for (const std::string& unit :
         {std::string("a"), std::string(" "), std::string("é"), std::string("<|im_end|>"), std::string("it's 12\n")}) {
      std::string text;
      while (text.size() < 100000) text += unit;
      EXPECT_TRUE(tokenizer.decode(tokenizer.encode(text, false, true), false).ends_with(text)) << name << unit;
    }
  }
  // A quadratic algorithm takes much longer.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

/// small_json() with one more added token, 260.
Tokenizer with_added(const std::string& content, const std::string& flags, const std::string& normalizer = "null") {
  std::string token = R"({"id": 260, "content": ")" + content + R"(", "single_word": false, "lstrip": false,
                         "rstrip": false, "normalized": false, "special": true})";
  for (std::size_t at = 0; at < flags.size();) {
    const std::size_t end = std::min(flags.find(' ', at), flags.size());
    const std::string flag = '"' + flags.substr(at, end - at) + R"(": )";
    token = test::replaced(token, flag + "false", flag + "true");
    at = end + 1;
  }
  std::string json = test::replaced(test::small_json(), R"("special": true})", R"("special": true}, )" + token);
  return test::load_json(test::replaced(json, R"("normalizer": null)", R"("normalizer": )" + normalizer));
}

TEST(AddedTokens, TheLeftmostAndThenTheLongestMatches) {
  EXPECT_THAT(with_added("<mark>>", "").encode("<mark>>>", true, true), ElementsAre(260, '>'));
  EXPECT_THAT(with_added("x<m", "").encode("x<mark>", true, true), ElementsAre(260, 'a', 'r', 'k', '>'));
  EXPECT_THAT(with_added("<ma", "").encode("<mark><mar", true, true), ElementsAre(259, 260, 'r'));
}

TEST(AddedTokens, StripWhiteSpaceWhenTheirFlagsAreSet) {
  EXPECT_THAT(with_added("@@", "lstrip").encode("x \u3000\n@@ y", true, true), ElementsAre('x', 260, ' ', 'y'));
  EXPECT_THAT(with_added("@@", "rstrip").encode("x @@ \t\u00A0y", true, true), ElementsAre('x', ' ', 260, 'y'));
  EXPECT_THAT(with_added("@@", "lstrip rstrip").encode(" @@  @@ ", true, true), ElementsAre(260, 260));
  EXPECT_THAT(with_added(" q", "").encode("<mark> q", true, true), ElementsAre(259, 260));
}

// As in the reference, which finds tokens in the white space that was removed, and goes on right behind them.
TEST(AddedTokens, InsideRemovedWhiteSpaceAreFoundAndItsRestIsText) {
  const std::filesystem::path source = DRAFTPROOF_SOURCE_DIR;
  const Tokenizer tokenizer = Tokenizer::load(source / "fixtures/external/tokenizers-characters/gemma-split");
  EXPECT_THAT(tokenizer.encode("[/INST]\n\n\t_", true, true), ElementsAre(1, 4, 5, 19, 544));
}

TEST(AddedTokens, MatchOnlyWholeWordsWhenTheirFlagIsSet) {
  const Tokenizer tokenizer = with_added("xy", "single_word");
  EXPECT_THAT(tokenizer.encode("xy (xy)", true, true), ElementsAre(260, ' ', '(', 260, ')'));
  for (const char* word : {"xyz", "zxy", "xy1", "_xy", "\u00E9xy", "xy\u0301", "xy\u200D"}) {
    EXPECT_THAT(tokenizer.encode(word, true, true), ::testing::Not(::testing::Contains(260))) << word;
  }
}

TEST(AddedTokens, MatchNormalizedTextWhenTheirFlagIsSet) {
  const std::string nfc = R"({"type": "Sequence", "normalizers": [{"type": "NFC"}]})";
  EXPECT_THAT(with_added("\u00E9!", "normalized", nfc).encode("e\u0301!", true, true), ElementsAre(260));
  EXPECT_THAT(with_added("e\u0301!", "normalized", nfc).encode("\u00E9!", true, true), ElementsAre(260));
  EXPECT_THAT(with_added("\u00E9!", "", nfc).encode("e\u0301!", true, true), ElementsAre(0xC3, 0xA9, '!'));
}

// Decoded as by Hugging Face's ByteLevel: the letter is in the byte alphabet and represents byte E9.
TEST(AddedTokens, DecodeThroughTheByteAlphabet) {
  EXPECT_EQ(with_added("\u00E9!", "").decode(std::vector<Token>{260}, false), "\uFFFD!");
  EXPECT_EQ(with_added("\u4E16\u00E9", "").decode(std::vector<Token>{260}, false), "\u4E16\u00E9");
}

}  // namespace
}  // namespace draftproof::tokenizer_test
