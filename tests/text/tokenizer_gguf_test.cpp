// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/gguf_bytes.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::tokenizer_gguf_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using test::GgufBytes;

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
  expect(changed([](Vocabulary& v) { v.pre = "kimi-k2"; }), "pre",
         "'kimi-k2' is not implemented; implemented are gpt-2, qwen2, ");
  expect(changed([](Vocabulary& v) { v.types.pop_back(); }), "token_type", "not as long");
  expect(changed([](Vocabulary& v) { v.types[0] = 6; }), "token_type", "type 6");
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
