// SPDX-License-Identifier: MIT
// Compares with reference implementations: Hugging Face's `tokenizers`, SentencePiece and llama.cpp, whose whole
// vocabularies are not part of this repository (DRAFTPROOF_VOCAB names their folder).
#include <gtest/gtest.h>

#include <cstdlib>

#include "ref/formats/json.h"
#include "ref/text/unicode.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::tokenizer_fixtures_test {
namespace {

std::vector<Token> tokens_of(const Json& array) {
  std::vector<Token> tokens;
  for (const std::int64_t id : array.integers(0, 1 << 30)) tokens.push_back(static_cast<Token>(id));
  return tokens;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<Token>& tokens, bool skip_special) {
  const StopStrings none;
  TextStream stream(tokenizer, none, skip_special);
  std::string text;
  for (const Token token : tokens) text += stream.push(token);
  return text + stream.finish();
}

class HuggingFace : public ::testing::TestWithParam<const char*> {
 protected:
  HuggingFace() : folder_(test::fixtures() / "external" / "tokenizers" / GetParam()) {}
  std::filesystem::path folder_;
};

TEST_P(HuggingFace, AgreesOnEveryText) {
  const Tokenizer tokenizer = Tokenizer::load(folder_);
  const Json cases = Json::read(folder_ / "cases.json").at("encode");
  ASSERT_GT(cases.size(), 100u);
  for (std::size_t index = 0; index < cases.size(); ++index) {
    const Json one = cases[index];
    const std::string text = one.at("text").string();
    SCOPED_TRACE(text);
    const auto with_special = tokens_of(one.at("ids_with_special"));
    EXPECT_EQ(tokenizer.encode(text, false, true), tokens_of(one.at("ids")));
    EXPECT_EQ(tokenizer.encode(text, true, true), with_special);
    EXPECT_EQ(tokenizer.decode(with_special, false), one.at("decoded").string());
    EXPECT_EQ(tokenizer.decode(with_special, true), one.at("decoded_skipping_special").string());
    EXPECT_EQ(streamed(tokenizer, with_special, false), one.at("decoded").string());
    EXPECT_EQ(streamed(tokenizer, with_special, true), one.at("decoded_skipping_special").string());
  }
}

TEST_P(HuggingFace, AgreesOnEveryBrokenByteSequence) {
  const Tokenizer tokenizer = Tokenizer::load(folder_);
  const Json cases = Json::read(folder_ / "cases.json").at("decode");
  ASSERT_GE(cases.size(), 20u);
  for (std::size_t index = 0; index < cases.size(); ++index) {
    const Json one = cases[index];
    const auto tokens = tokens_of(one.at("ids"));
    std::string bytes;
    for (const Token token : tokens) bytes += tokenizer.bytes_of(token);
    std::string expected;
    for (const std::int64_t byte : one.at("bytes").integers(0, 255)) expected += static_cast<char>(byte);
    EXPECT_EQ(bytes, expected);
    EXPECT_EQ(tokenizer.decode(tokens, false), one.at("decoded").string());
    EXPECT_EQ(streamed(tokenizer, tokens, false), one.at("decoded").string());
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, HuggingFace,
                         ::testing::Values("qwen", "gpt2", "llama3", "qwen35", "nemo", "deepseek3", "kimi"));

/// A vocabulary in any format, with the answers of the program whose format it is.
class Vocabulary : public ::testing::TestWithParam<const char*> {
 protected:
  Vocabulary() : folder_(test::fixtures() / "external" / GetParam()) {}
  std::filesystem::path file() const {
    for (const char* name : {"tokenizer.model", "tokenizer.json", "vocabulary.gguf"}) {
      if (std::filesystem::exists(folder_ / name)) return folder_ / name;
    }
    return folder_;
  }
  std::filesystem::path folder_;
};

TEST_P(Vocabulary, AgreesOnEveryText) {
  const Tokenizer tokenizer = Tokenizer::load(file());
  const Json cases = Json::read(folder_ / "cases.json").at("encode");
  ASSERT_GT(cases.size(), 40u);
  for (std::size_t index = 0; index < cases.size(); ++index) {
    const Json one = cases[index];
    const std::string text = one.at("text").string();
    SCOPED_TRACE(text);
    const auto ids = tokens_of(one.at("ids"));
    const auto with_special = one.find("ids_with_special");
    EXPECT_EQ(tokenizer.encode(text, false, with_special.has_value()), ids);  // else special tokens were not parsed
    if (with_special) {
      EXPECT_EQ(tokenizer.encode(text, true, true), tokens_of(*with_special));
    }
    if (const auto expected = one.find("ids_of_text")) {
      EXPECT_EQ(tokenizer.encode(text, false, false), tokens_of(*expected));
    }
    const auto encoded = with_special ? tokens_of(*with_special) : ids;
    if (const auto expected = one.find("decoded")) {
      EXPECT_EQ(tokenizer.decode(encoded, false), expected->string());
      EXPECT_EQ(streamed(tokenizer, encoded, false), expected->string());
    }
    if (const auto expected = one.find("decoded_skipping_special")) {
      EXPECT_EQ(tokenizer.decode(encoded, true), expected->string());
      EXPECT_EQ(streamed(tokenizer, encoded, true), expected->string());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfCharacters, Vocabulary,
                         ::testing::Values("tokenizers-characters/llama-model", "tokenizers-characters/llama-gguf",
                                           "tokenizers-characters/llama-prepend",
                                           "tokenizers-characters/llama-metaspace", "tokenizers-characters/gemma-model",
                                           "tokenizers-characters/gemma-gguf", "tokenizers-characters/gemma-split",
                                           "tokenizers-characters/no-bytes-model", "tokenizers-characters/t5-model",
                                           "tokenizers-characters/t5-gguf", "tokenizers-characters/t5-unigram",
                                           "tokenizers-characters/unigram-bytes-model",
                                           "tokenizers-characters/unigram-bytes-normalized"));
INSTANTIATE_TEST_SUITE_P(OfLlamaCpp, Vocabulary,
                         ::testing::Values("tokenizers-llama-cpp/llama-spm", "tokenizers-llama-cpp/gpt-2",
                                           "tokenizers-llama-cpp/falcon", "tokenizers-llama-cpp/deepseek-coder"));

/// The vocabulary and merges of a tokenizer.json as a GGUF.
test::GgufBytes as_gguf(const Json& root, const char* pre) {
  const Json model = root.at("model");
  const Json vocabulary = model.at("vocab");
  const Json added = root.at("added_tokens");
  std::vector<std::string> tokens(vocabulary.fields().size() + added.size());
  std::vector<std::int32_t> types(tokens.size(), 1);
  for (const std::string& text : vocabulary.fields()) tokens[vocabulary.at(text).integer(0, 1 << 20)] = text;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const auto id = static_cast<std::size_t>(added[i].at("id").integer(0, 1 << 20));
    tokens[id] = added[i].at("content").string();
    types[id] = added[i].at("special").boolean() ? 3 : 4;
  }
  std::vector<std::string> merges;
  for (std::size_t i = 0; i < model.at("merges").size(); ++i) {
    const Json merge = model.at("merges")[i];
    merges.push_back(merge.is_string() ? merge.string() : merge[0].string() + " " + merge[1].string());
  }
  test::GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre).texts("tokenizer.ggml.tokens", tokens);
  file.integers("tokenizer.ggml.token_type", types).texts("tokenizer.ggml.merges", merges);
  return file.truth("tokenizer.ggml.add_bos_token", false);
}

// The expression that a GGUF names means the one that tokenizer.json spells out.
TEST(GgufPreTokenizers, AgreeWithHuggingFaceOnEveryText) {
  const std::pair<const char*, const char*> pairs[] = {{"gpt2", "gpt-2"},    {"llama3", "llama-bpe"},
                                                       {"qwen35", "qwen35"}, {"nemo", "tekken"},
                                                       {"qwen", "qwen2"},    {"deepseek3", "deepseek-v3"}};
  for (const auto& [name, pre] : pairs) {
    const auto folder = test::fixtures() / "external" / "tokenizers" / name;
    const Json root = Json::read(folder / "tokenizer.json");
    const Tokenizer tokenizer =
        Tokenizer::load(test::ScratchFile(as_gguf(root, pre).bytes(), "vocabulary.gguf").path());
    const Json cases = Json::read(folder / "cases.json").at("encode");
    for (std::size_t index = 0; index < cases.size(); ++index) {
      const std::string text = cases[index].at("text").string();
      // A GGUF knows neither NFC nor tokens that strip the spaces around them.
      const bool composed = unicode::normalized(unicode::Form::nfc, text) == text || !root.find("normalizer");
      if (!composed || text.find("<|") != std::string::npos) continue;
      EXPECT_EQ(tokenizer.encode(text, false, true), tokens_of(cases[index].at("ids"))) << pre << ": " << text;
    }
  }
}

TEST(ShippedModels, HaveTokenizersThatLoad) {
  for (const char* name : {"tale-gemma", "tale-hybrid", "tale-small", "tale-target"}) {
    const Tokenizer tokenizer = Tokenizer::load(test::fixtures() / "models" / name);
    const std::string text = "Jördis walked to the well.<|im_end|>";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, true, true), false), text) << name;
    EXPECT_TRUE(tokenizer.is_special(tokenizer.find("<|MASK|>"))) << name;
  }
}

/// llama.cpp's texts and its tokens, in order.
struct VocabularyCase {
  std::string text;
  std::vector<Token> tokens;
};

std::string content_of(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<VocabularyCase> read_cases(const std::filesystem::path& model) {
  const std::string separator = "\n__ggml_vocab_test__\n";
  const std::string texts = content_of(model.string() + ".inp");
  std::istringstream answers(content_of(model.string() + ".out"));
  std::vector<VocabularyCase> cases;
  std::string line;
  for (std::size_t begin = 0; std::getline(answers, line);) {
    std::size_t end = texts.find(separator, begin);
    if (end == std::string::npos) end = texts.size();
    VocabularyCase one{texts.substr(begin, end - begin), {}};
    std::istringstream ids(line);
    for (Token id = 0; ids >> id;) one.tokens.push_back(id);
    cases.push_back(std::move(one));
    begin = std::min(end + separator.size(), texts.size());
  }
  return cases;
}

class LlamaCpp : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("DRAFTPROOF_VOCAB");
    model_ = folder != nullptr ? std::filesystem::path(folder)
                               : std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / ".." / "shared" / "data" / "vocab";
    model_ /= GetParam();
    if (!std::filesystem::exists(model_)) {
      GTEST_SKIP() << "llama.cpp's vocabularies are not here; DRAFTPROOF_VOCAB names their folder";
    }
  }
  std::filesystem::path model_;
};

TEST_P(LlamaCpp, AgreesOnEveryText) {
  const Tokenizer tokenizer = Tokenizer::load(model_);
  const auto cases = read_cases(model_);
  ASSERT_GT(cases.size(), 40u);
  for (const VocabularyCase& one : cases) {
    SCOPED_TRACE(one.text);
    EXPECT_EQ(tokenizer.encode(one.text, false), one.tokens);
    EXPECT_EQ(tokenizer.decode(one.tokens, false), one.text);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, LlamaCpp,
                         ::testing::Values("ggml-vocab-gpt-2.gguf", "ggml-vocab-deepseek-coder.gguf",
                                           "ggml-vocab-falcon.gguf", "ggml-vocab-llama-spm.gguf"));

}  // namespace
}  // namespace draftproof::tokenizer_fixtures_test
