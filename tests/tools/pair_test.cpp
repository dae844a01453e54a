// SPDX-License-Identifier: MIT
#include "tools/pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ref/base/error.h"
#include "tests/tools/command.h"

namespace draftproof::test::pair_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A folder with a pair, beside links to a target and a draft.
class PairFile : public ::testing::Test {
 protected:
  PairFile() {
    files::create_directory_symlink(fixture("models/tale-target"), folder_.path() / "target");
    files::create_directory_symlink(fixture("models/tale-dflash"), folder_.path() / "draft");
  }
  std::string pair(const std::string& text) const {
    const std::string path = (folder_.path() / "pair.json").string();
    put(path, text);
    return path;
  }
  std::string error_of(const std::string& text) const {
    try {
      read_pair(pair(text));
    } catch (const Error& wrong) {
      return wrong.what();
    }
    return "";
  }
  std::string beside(const std::string& name) const { return (folder_.path() / name).string(); }

  const Folder folder_;
};

TEST_F(PairFile, NamesTargetAndDraftRelativeToItsFolder) {
  const auto read = read_pair(pair(R"({"target": "target", "draft": "suffix+dflash:draft?type=q4", "kv": "q8"})"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->target, beside("target"));
  EXPECT_EQ(read->draft, "suffix+dflash:" + beside("draft") + "?type=q4");
  EXPECT_EQ(read->kv, "q8");
  EXPECT_EQ(read->quantize, std::nullopt);
  EXPECT_EQ(read_pair(pair(R"({"target": "/a/b"})"))->target, "/a/b");
  EXPECT_EQ(read_pair(pair(R"({"target": "target", "lora": ["draft=0.5", "/a/b"]})"))->lora,
            (std::vector<std::string>{beside("draft") + "=0.5", "/a/b"}));
}

TEST_F(PairFile, IsNothingElseThanAFileOfThatEnding) {
  EXPECT_FALSE(read_pair(fixture("models/tale-target")));
  EXPECT_FALSE(read_pair(beside("nothing.json")));
  files::create_directory(folder_.path() / "folder.json");
  EXPECT_FALSE(read_pair(beside("folder.json")));
}

TEST_F(PairFile, ThatIsWrongIsRefusedByFileAndField) {
  const std::string file = beside("pair.json");
  EXPECT_THAT(error_of("["), HasSubstr(file));
  EXPECT_THAT(error_of("[]"), AllOf(HasSubstr(file), HasSubstr("is not a pair")));
  EXPECT_THAT(error_of("{}"), AllOf(HasSubstr(file), HasSubstr("target")));
  EXPECT_THAT(error_of(R"({"target": 3})"), AllOf(HasSubstr(file), HasSubstr("target")));
  EXPECT_THAT(error_of(R"({"target": ""})"), AllOf(HasSubstr("field target"), HasSubstr("is empty")));
  EXPECT_THAT(error_of(R"({"target": "target", "run": "x"})"),
              AllOf(HasSubstr(file), HasSubstr("no field 'run'; there are target, draft, quantize, kv and lora")));
  EXPECT_THAT(error_of(R"({"target": "target", "draft": "dflash"})"),
              AllOf(HasSubstr("field draft"), HasSubstr("needs a path")));
  EXPECT_THAT(error_of(R"({"target": "target", "quantize": "q5"})"),
              AllOf(HasSubstr("field quantize"), HasSubstr("no quantization named 'q5'")));
  EXPECT_THAT(error_of(R"({"target": "target", "kv": "q4"})"), AllOf(HasSubstr("field kv"), HasSubstr("'q4'")));
  EXPECT_THAT(error_of(R"({"target": "target", "lora": ["a=much"]})"),
              AllOf(HasSubstr(file), HasSubstr("field lora[0]"), HasSubstr("'much' is no number")));
  EXPECT_NE(error_of(R"({"target": "target", "target": "draft"})"), "");
}

TEST_F(PairFile, StandsForTargetAndDraftOfACommand) {
  const std::string path = pair(R"({"target": "target", "draft": "dflash:draft?type=q4", "kv": "q8"})");
  const Words text = {"--prompt", "Once upon a time there was a king who", "--max-new-tokens", "24", "--json", "-"};
  const auto result = [&](const Words& words) {
    const Outcome outcome = run_command(words + text);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  };
  const json paired = result({"generate", path});
  const json named =
      result({"generate", beside("target"), "--draft", "dflash:" + beside("draft") + "?type=q4", "--kv", "q8"});
  EXPECT_EQ(paired["draft"], named["draft"]);
  EXPECT_EQ(paired["numerics"], named["numerics"]);
  EXPECT_EQ(paired["tokens"], named["tokens"]);
  EXPECT_GT(paired["statistics"]["drafted"], 0);
  const json plain = result({"generate", path, "--draft", "none", "--kv", "f32"});
  EXPECT_EQ(plain["draft"], "none");
  EXPECT_NE(plain["numerics"], paired["numerics"]);
  const json proved = result({"verify", path, "--effort", "quick"});
  EXPECT_EQ(proved["verdict"], "PASS_EXACT") << proved.dump();
  EXPECT_EQ(proved["drafts"][0]["name"], paired["draft"]);
}

TEST_F(PairFile, WithoutATargetIsOneSentence) {
  const Outcome outcome = run_command({"generate", pair(R"({"target": "nothing"})"), "--prompt-tokens", "1"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr(beside("nothing")));
}

TEST(Pair, IsNamedByTheHelpOfTheCommandsThatTakeOne) {
  for (const char* const command : {"generate", "chat", "serve", "verify"}) {
    EXPECT_THAT(run_command({command, "--help"}).out, testing::HasSubstr("(a pair)")) << command;
  }
  for (const char* const command : {"corpus", "inspect"}) {
    EXPECT_THAT(run_command({command, "--help"}).out, testing::Not(testing::HasSubstr("(a pair)"))) << command;
  }
}

}  // namespace
}  // namespace draftproof::test::pair_test
