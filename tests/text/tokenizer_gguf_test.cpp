// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ref/text/token_decoder.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::tokenizer_gguf_test {
namespace {

using test::GgufBytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Tokens of small_json(): 256 bytes, "ab", "abc", "Ġa", "<mark>" (control), "<user>" (user-defined).
struct Vocabulary {
  std::string pre = "gpt-2";
  std::string model = "gpt2";
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types = std::vector<std::int32_t>(259, 1);
  std::vector<std::string> merges = {"a b", "ab c", "Ġ a"};

  Vocabulary() {
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_alphabet::spelling(static_cast<unsigned char>(byte)));
    for (const char* more : {"ab", "abc", "Ġa", "<mark>", "<user>"}) tokens.emplace_back(more);
    types.push_back(3);
    types.push_back(4);
  }

  GgufBytes file() const {
    GgufBytes file;
    file.text("tokenizer.ggml.model", model).text("tokenizer.ggml.pre", pre);
    file.texts("tokenizer.ggml.tokens", tokens).integers("tokenizer.ggml.token_type", types);
    file.texts("tokenizer.ggml.merges", merges).number("tokenizer.ggml.bos_token_id", 259);
    return file;
  }
};

Tokenizer load(const GgufBytes& file) {
  return Tokenizer::load(test::ScratchFile(file.bytes(), "vocabulary.gguf").path());
}

TEST(TokenizerGguf, EncodesAndDecodes) {
  const Tokenizer tokenizer = load(Vocabulary().file());
  EXPECT_THAT(tokenizer.encode("abc a<mark>ab<user>", true, true), ElementsAre(257, 258, 259, 256, 260));
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{257, 258, 259, 260}), "abc a<user>");
  EXPECT_TRUE(tokenizer.is_special(259));
  EXPECT_FALSE(tokenizer.is_special(260));
  EXPECT_EQ(tokenizer.vocabulary(), 261);
}

TEST(TokenizerGguf, KnowsTheExpressionsOfThePreTokenizerNames) {
  Vocabulary vocabulary;
  vocabulary.tokens.emplace_back("123");
  vocabulary.types.push_back(1);
  vocabulary.pre = "llama-bpe";  // adds the BOS, matches whole words
  EXPECT_THAT(load(vocabulary.file()).encode("1234"), ElementsAre(259, 261, '4'));
  vocabulary.pre = "qwen2";
  EXPECT_THAT(load(vocabulary.file()).encode("1234"), ElementsAre('1', '2', '3', '4'));
}

TEST(TokenizerGguf, AddsTheSpecialTokensThatTheFileRequires) {
  const auto with = [](const char* key, bool value) { return Vocabulary().file().truth(key, value); };
  EXPECT_THAT(load(with("tokenizer.ggml.add_bos_token", true)).encode("x"), ElementsAre(259, 'x'));
  EXPECT_THAT(load(with("tokenizer.ggml.add_bos_token", false)).encode("x"), ElementsAre('x'));
  EXPECT_THAT(load(with("tokenizer.ggml.add_eos_token", true).number("tokenizer.ggml.eos_token_id", 260)).encode("x"),
              ElementsAre('x', 260));
}

/// SentencePiece's BPE: <unk> 0, <s> 1, </s> 2, <0x00>..<0xFF> 3..258, "▁" 259, "a" 260, "b" 261, "ab" 262,
/// "▁a" 263, "<mask>" 264 (user-defined).
struct Scored {
  std::string model = "llama";
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {2, 3, 3};
  std::vector<float> scores;

  Scored() {
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(fallback_entry(static_cast<unsigned char>(byte)));
    types.resize(tokens.size(), 6);
    for (const char* more : {"\u2581", "a", "b", "ab", "\u2581a", "<mask>"}) tokens.emplace_back(more);
    types.resize(tokens.size() - 1, 1);
    types.push_back(4);
    scores.resize(tokens.size(), -9);
    scores[262] = -1;
    scores[263] = -2;
  }

  GgufBytes file() const {
    GgufBytes file;
    file.text("tokenizer.ggml.model", model).texts("tokenizer.ggml.tokens", tokens);
    return file.integers("tokenizer.ggml.token_type", types).reals("tokenizer.ggml.scores", scores);
  }
};

TEST(TokenizerGguf, MergesByScoreWithByteTokens) {
  const Tokenizer tokenizer = load(Scored().file());
  EXPECT_THAT(tokenizer.encode("ab a"), ElementsAre(1, 259, 262, 263));  // the BOS is 1 unless the file says otherwise
  EXPECT_THAT(tokenizer.encode("\n", false), ElementsAre(259, 3 + '\n'));
  EXPECT_THAT(tokenizer.encode("a<mask>a", false), ElementsAre(263, 264, 263));  // a space after every token
  EXPECT_THAT(tokenizer.encode("<s>", false, true), ElementsAre(1));
  EXPECT_EQ(tokenizer.encode("<0x41>", false).size(), 7u);  // a text, not the byte
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{1, 259, 262, 263, 3 + 0xC3, 3 + 0xA9}), "ab a\u00E9");
  const Tokenizer bare = load(
      Scored().file().truth("tokenizer.ggml.add_space_prefix", false).truth("tokenizer.ggml.add_bos_token", false));
  EXPECT_THAT(bare.encode("ab a"), ElementsAre(262, 263));
  EXPECT_EQ(bare.decode(std::vector<Token>{263}), " a");
}

TEST(TokenizerGguf, ReadsGemma4) {
  Scored vocabulary;
  vocabulary.model = "gemma4";
  for (const char* more : {"\n", "\n\n"}) vocabulary.tokens.emplace_back(more);
  vocabulary.types.resize(vocabulary.tokens.size(), 1);
  const auto file = [&] {
    GgufBytes bytes = vocabulary.file().number("tokenizer.ggml.bos_token_id", 1);
    return bytes.texts("tokenizer.ggml.merges", {"a b", "\u2581 a"});
  };
  vocabulary.scores.resize(vocabulary.tokens.size());
  const Tokenizer tokenizer = load(file().truth("tokenizer.ggml.add_bos_token", false));
  EXPECT_THAT(tokenizer.encode("ab a\n\nb"), ElementsAre(1, 262, 263, 266, 261));  // the BOS whatever the file says
  EXPECT_THAT(tokenizer.encode("\n\n\n\t", false), ElementsAre(265, 265, 265, 3 + '\t'));
  EXPECT_EQ(tokenizer.decode(std::vector<Token>{263, 3 + 'x', 266}), " ax\n\n");
}

TEST(TokenizerGguf, NamesTheInvalidFieldOfAScoredVocabulary) {
  const auto expect = [](auto change, const std::string& field, const std::string& what) {
    Scored vocabulary;
    change(vocabulary);
    const std::string error = test::error_of([&] { load(vocabulary.file()); });
    EXPECT_THAT(error, HasSubstr("vocabulary.gguf: field tokenizer.ggml." + field + ": "));
    EXPECT_THAT(error, HasSubstr(what));
  };
  expect([](Scored& v) { v.scores.pop_back(); }, "scores", "not as long");
  expect([](Scored& v) { v.scores[7] = std::numeric_limits<float>::quiet_NaN(); }, "scores", "score 7 is not finite");
  expect([](Scored& v) { v.types[5] = 9; }, "token_type", "type 9");
  expect([](Scored& v) { v.types[260] = 6; }, "tokens[260]", "'a' is no byte like <0x41>");
  expect([](Scored& v) { v.tokens[260] = "b"; }, "tokens", "has another id");
  expect([](Scored& v) { v.tokens.clear(), v.types.clear(), v.scores.clear(); }, "tokens", "no entries");
  EXPECT_THAT(test::error_of([] { load(Scored().file().number("tokenizer.ggml.bos_token_id", 999)); }),
              HasSubstr("bos_token_id: id 999 is not a token"));
}

TEST(TokenizerGguf, NamesTheInvalidField) {
  const auto error = [](const GgufBytes& file) { return test::error_of([&] { load(file); }); };
  const auto expect = [&](const GgufBytes& file, const std::string& field, const std::string& what) {
    EXPECT_THAT(error(file), HasSubstr("vocabulary.gguf: field tokenizer.ggml." + field + ": "));
    EXPECT_THAT(error(file), HasSubstr(what));
  };
  const auto changed = [](auto change) {
    Vocabulary vocabulary;
    change(vocabulary);
    return vocabulary.file();
  };
  expect(changed([](Vocabulary& v) { v.model = "bert"; }), "model", "'bert' is not implemented");
  expect(changed([](Vocabulary& v) { v.pre = "none-such"; }), "pre",
         "'none-such' is not implemented; implemented are gpt-2, qwen2, ");
  expect(changed([](Vocabulary& v) { v.types.pop_back(); }), "token_type", "not as long");
  expect(changed([](Vocabulary& v) { v.types[0] = 6; }), "token_type", "type 6");
  expect(changed([](Vocabulary& v) { v.types[0] = 7; }), "token_type", "type 7");
  expect(changed([](Vocabulary& v) { v.tokens[3] = "a"; }), "tokens", "has another id");
  expect(changed([](Vocabulary& v) { v.tokens[3] = "\xFF"; }), "tokens", "not UTF-8");
  expect(changed([](Vocabulary& v) { v.tokens[260] = "<mark>"; }), "tokens", "repeats");
  expect(changed([](Vocabulary& v) { v.tokens[260] = ""; }), "tokens", "is empty");
  expect(changed([](Vocabulary& v) { v.merges = {"a q"}; }), "merges", "'aq'");
  expect(changed([](Vocabulary& v) { v.merges = {"aq"}; }), "merges", "one space");
  expect(GgufBytes().text("tokenizer.ggml.model", "gpt2"), "pre", "missing");
  expect(GgufBytes().number("tokenizer.ggml.model", 3), "model", "wrong type");
  expect(Vocabulary().file().truth("tokenizer.ggml.add_eos_token", true), "eos_token_id", "missing");
  expect(Vocabulary().file().truth("tokenizer.ggml.add_eos_token", true).number("tokenizer.ggml.eos_token_id", 9999),
         "eos_token_id", "9999 is not a token");
}

}  // namespace
}  // namespace draftproof::tokenizer_gguf_test
