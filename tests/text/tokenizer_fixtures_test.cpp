// SPDX-License-Identifier: MIT
// Compares with reference implementations: Hugging Face's `tokenizers` (fixtures/external/tokenizers) and llama.cpp's
// vocabulary tests, which are not part of this repository (DRAFTPROOF_VOCAB names their folder).
#include <gtest/gtest.h>

#include <cstdlib>

#include "ref/formats/json.h"
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
  const Tokenizer tokenizer = Tokenizer::load(folder_ / "tokenizer.json");
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

INSTANTIATE_TEST_SUITE_P(Fixtures, HuggingFace, ::testing::Values("qwen", "gpt2", "llama3"));

/// SentencePiece's, llama.cpp's and Hugging Face's answers for vocabularies of characters.
class Characters : public ::testing::TestWithParam<const char*> {
 protected:
  Characters() : folder_(test::fixtures() / "external" / "tokenizers-characters" / GetParam()) {}
  std::filesystem::path file() const {
    for (const char* name : {"tokenizer.model", "tokenizer.json", "vocabulary.gguf"}) {
      if (std::filesystem::exists(folder_ / name)) return folder_ / name;
    }
    return folder_;
  }
  std::filesystem::path folder_;
};

TEST_P(Characters, AgreeOnEveryText) {
  const Tokenizer tokenizer = Tokenizer::load(file());
  const Json cases = Json::read(folder_ / "cases.json").at("encode");
  ASSERT_GT(cases.size(), 120u);
  const bool sentencepiece = file().extension() == ".model";  // where control pieces are never parsed
  for (std::size_t index = 0; index < cases.size(); ++index) {
    const Json one = cases[index];
    const std::string text = one.at("text").string();
    SCOPED_TRACE(text);
    const auto ids = tokens_of(one.at("ids"));
    EXPECT_EQ(tokenizer.encode(text, false, !sentencepiece), ids);
    if (const auto expected = one.find("ids_with_special")) {
      EXPECT_EQ(tokenizer.encode(text, true, true), tokens_of(*expected));
    }
    if (const auto expected = one.find("ids_of_text")) {
      EXPECT_EQ(tokenizer.encode(text, false, false), tokens_of(*expected));
    }
    const auto decoded_ids = sentencepiece ? ids : tokenizer.encode(text, true, true);
    if (const auto expected = one.find("decoded")) {
      EXPECT_EQ(tokenizer.decode(decoded_ids, false), expected->string());
      EXPECT_EQ(streamed(tokenizer, decoded_ids, false), expected->string());
    }
    if (const auto expected = one.find("decoded_skipping_special")) {
      EXPECT_EQ(tokenizer.decode(decoded_ids, true), expected->string());
      EXPECT_EQ(streamed(tokenizer, decoded_ids, true), expected->string());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Characters,
                         ::testing::Values("llama-model", "llama-gguf", "llama-prepend", "llama-metaspace",
                                           "gemma-model", "gemma-gguf", "gemma-split", "no-bytes-model", "t5-model",
                                           "t5-gguf", "t5-unigram", "unigram-bytes-model",
                                           "unigram-bytes-normalized"));

TEST(ShippedModels, HaveTokenizersThatLoad) {
  for (const char* name : {"tale-small", "tale-target"}) {
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
