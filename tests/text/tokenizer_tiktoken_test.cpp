// SPDX-License-Identifier: MIT
// What is wrong in a tiktoken.model and the config beside it. Right ones are compared in tokenizer_fixtures_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/folder.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::tokenizer_tiktoken_test {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kimi = test::fixtures() / "external" / "tokenizers" / "kimi";
const std::string config = R"({"tokenizer_class": "TikTokenTokenizer"})";

std::string error_of(const std::string& model, const std::string& beside) {
  const test::Folder folder;
  test::put(folder.path() / "tiktoken.model", model);
  if (!beside.empty()) test::put(folder.path() / "tokenizer_config.json", beside);
  try {
    Tokenizer::load(folder.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Tiktoken, DamagedFilesAreErrorsThatNameFileAndPlace) {
  const std::string model = test::text_of(kimi / "tiktoken.model");
  EXPECT_EQ(error_of(model, config), "");
  EXPECT_EQ(error_of(model + "\n", config), "") << "an empty line at the end";
  const std::string first = model.substr(0, model.find('\n') + 1);
  const std::string rest = model.substr(first.size());
  EXPECT_THAT(error_of("", config), HasSubstr("tiktoken.model: has no token for the byte"));
  EXPECT_THAT(error_of(first, config), HasSubstr("has no token for the byte"));
  EXPECT_THAT(error_of(rest, config), HasSubstr("line 1 is not the bytes of a token in base64 and its rank, 0"));
  EXPECT_THAT(error_of(first + first + rest, config), HasSubstr("line 2 is not the bytes"));
  EXPECT_THAT(error_of("??? 0\n" + rest, config), HasSubstr("line 1 is not the bytes"));
  EXPECT_THAT(error_of(" 0\n" + rest, config), HasSubstr("line 1 is not the bytes"));
  EXPECT_THAT(error_of(first.substr(0, first.find(' ')), config), HasSubstr("line 1 is not the bytes"));
  EXPECT_THAT(error_of(model.substr(0, model.size() - 3), config), HasSubstr("is not the bytes"));
  const std::size_t end = static_cast<std::size_t>(std::ranges::count(model, '\n'));
  EXPECT_THAT(error_of(model + "YWFh " + std::to_string(end) + "\n", config), HasSubstr("has another id already"));
}

TEST(Tiktoken, OfAnotherProgramOrWithTokensElsewhereIsRefused) {
  const std::string model = test::text_of(kimi / "tiktoken.model");
  EXPECT_THAT(error_of(model, ""), HasSubstr("tokenizer_config.json"));
  EXPECT_THAT(error_of(model, "{}"), HasSubstr("field tokenizer_class"));
  EXPECT_THAT(error_of(model, R"({"tokenizer_class": "QWenTokenizer"})"),
              HasSubstr("is not TikTokenTokenizer, Kimi's"));
  const auto with = [&](const std::string& tokens) {
    return error_of(model, R"({"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": )" + tokens + "}");
  };
  EXPECT_THAT(with(R"({"5": {"content": "x"}})"), HasSubstr("added_tokens_decoder.5: is not one of the 256 ids"));
  EXPECT_THAT(with(R"({"100000": {"content": "x"}})"), HasSubstr("is not one of the 256 ids"));
  EXPECT_THAT(with(R"({"405": {}})"), HasSubstr("added_tokens_decoder.405.content"));
  EXPECT_THAT(with(R"({"405": {"content": "x", "special": 1}})"), HasSubstr("special"));
  EXPECT_THAT(with("[]"), HasSubstr("added_tokens_decoder"));
}

}  // namespace
}  // namespace draftproof::tokenizer_tiktoken_test
