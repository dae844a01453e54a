// SPDX-License-Identifier: MIT
// `generate --prefix-cache`: what a run has read, a later run takes from the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"

namespace draftproof::test::prefix_cache_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string target = fixture("models/tale-target");
const std::string dflash = "dflash:" + fixture("models/tale-dflash");
const std::string prompt = "Once upon a time there was a king who";

/// generate, of some model.
Words told(const std::string& text, const std::string& model = target) {
  return {"generate", model, "--prompt", text, "--max-new-tokens", "16"};
}

json json_of(const Words& words) {
  const Outcome outcome = run_command(words + Words{"--json", "-"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

struct PrefixCacheFile : testing::Test {
  Folder folder;
  const std::string file = (folder.path() / "prefixes.h5").string();
  const Words cached = {"--prefix-cache", file};

  /// The file is there and stays as it is.
  void expect_refused(const Words& words, const std::string& message) const {
    const std::string before = text_of(file);
    const Outcome outcome = run_command(words + cached);
    EXPECT_EQ(outcome.status, 3);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, testing::StartsWith("draftproof: " + file + ": "));
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(text_of(file), before);
  }
  std::ptrdiff_t files_in_folder() const {
    return std::distance(files::directory_iterator(folder.path()), files::directory_iterator());
  }
};

TEST_F(PrefixCacheFile, LetsALaterRunReuseThePromptAndGiveTheSameTokens) {
  for (const Words& draft : {Words{}, Words{"--draft", dflash}}) {
    for (const Words& sampling : {Words{}, Words{"--temperature", "1", "--seed", "7"}}) {
      files::remove(file);
      const json without = json_of(told(prompt) + draft + sampling);
      const json first = json_of(told(prompt) + draft + sampling + cached);
      const json second = json_of(told(prompt) + draft + sampling + cached);
      const auto length = without["prompt_tokens"].size();
      EXPECT_EQ(without["reused"], 0);
      EXPECT_EQ(first["reused"], 0);
      EXPECT_EQ(second["reused"], length - 1) << "the last token of a prompt is always read";
      EXPECT_EQ(first["tokens"], without["tokens"]);
      EXPECT_EQ(second["tokens"], without["tokens"]);
      // A text that goes on after what was generated, and one that leaves it early.
      const std::string longer = prompt + without["text"].get<std::string>() + " Then";
      for (const std::string& text : {longer, prompt.substr(0, 24) + " queen"}) {
        const json other = json_of(told(text) + draft + sampling + cached);
        EXPECT_GT(other["reused"], text == longer ? length : 1);
        EXPECT_EQ(other["tokens"], json_of(told(text) + draft + sampling)["tokens"]);
      }
    }
  }
  EXPECT_EQ(files_in_folder(), 1);
}

TEST_F(PrefixCacheFile, CountsTheReusedPositionsInTheStatistics) {
  for (const char* count : {"0 of 10", "9 of 10"}) {
    const Outcome outcome = run_command(told(prompt) + cached + Words{"--stats"});
    EXPECT_THAT(outcome.err, HasSubstr(std::string(count) + " prompt positions came from the prefix cache\n"));
  }
}

TEST_F(PrefixCacheFile, KnowsModelsByTheirContentAndNotByTheirPath) {
  json_of(told(prompt) + cached);
  files::copy(target, folder.path() / "copy", files::copy_options::recursive);
  EXPECT_GT(json_of(told(prompt, folder.path() / "copy") + cached)["reused"], 0);
}

TEST_F(PrefixCacheFile, OfAnotherTargetDraftOrNumericsClassIsRefused) {
  json_of(told(prompt) + cached);
  expect_refused(told(prompt, fixture("models/tale-small")), "attribute 'model' is 'xxh3:");
  expect_refused(told(prompt) + Words{"--draft", dflash}, "attribute 'model' is 'xxh3:");
  expect_refused(told(prompt) + Words{"--kv", "q8"}, "this run needs 'canonical, kv q8'; delete the file");
  EXPECT_GT(json_of(told(prompt) + cached)["reused"], 0);
}

TEST_F(PrefixCacheFile, ThatIsDamagedIsRefused) {
  json_of(told(prompt) + cached);
  const std::string whole = text_of(file);
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  for (const std::string& damaged : {std::string(), whole.substr(0, 7), whole.substr(0, whole.size() / 2),
                                     whole.substr(0, whole.size() - 1), whole + "x", flipped, std::string("text\n")}) {
    put(file, damaged);
    expect_refused(told(prompt), "");
  }
}

TEST_F(PrefixCacheFile, ThatIsLargerThanMemoryIsRefusedUnread) {
  put(file, "");
  files::resize_file(file, std::uintmax_t{1} << 42);  // a hole
  const Outcome outcome = run_command(told(prompt) + cached);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("the prefix cache " + file + " needs 4096.00 GiB of memory"));
  EXPECT_EQ(files::file_size(file), std::uintmax_t{1} << 42);
}

TEST_F(PrefixCacheFile, ThatCannotBeWrittenIsRefusedBeforeTheWork) {
  const std::pair<Words, const char*> rows[] = {
      {{"--prefix-cache", folder.path() / "missing" / "file"}, "No such file or directory"},
      {{"--prefix-cache", folder.path()}, "it is not a regular file"},
      {{"--prefix-cache", "-"}, "--prefix-cache has to name a file, not standard output"},
      {{"--prefix-cache", target + "/prefixes.h5"}, "would overwrite an input of this command"},
      {cached + Words{"--json", file}, "would overwrite an input of this command"},
      {cached + Words{"--trace", file}, "would overwrite an input of this command"},
      {cached + Words{"--prefix-cache-size", "4G"}, "'4G' is not a number of bytes like 4GiB"},
      {cached + Words{"--prefix-cache-size", "17179869184GiB"}, "is not a number of bytes"},
      {{"--prefix-cache-size", "4GiB"}, "--prefix-cache-size requires --prefix-cache"},
  };
  for (const auto& [words, message] : rows) {
    const Outcome outcome = run_command(told(prompt) + words);
    EXPECT_EQ(outcome.status, 3) << message;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  EXPECT_EQ(files_in_folder(), 0);
}

TEST_F(PrefixCacheFile, ThatCannotBeWrittenInTheEndIsReportedAfterTheText) {
  const Outcome outcome = run_command(told(prompt) + cached, "trap '' XFSZ; ulimit -f 8;");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.out, testing::StartsWith(prompt));
  EXPECT_THAT(outcome.err, HasSubstr("cannot be written"));
  EXPECT_EQ(files_in_folder(), 0);
}

TEST_F(PrefixCacheFile, HoldsNoMoreThanItsSize) {
  for (const auto& [size, reused] : {std::pair("0", 0), std::pair("1KiB", 0), std::pair("1MiB", 9)}) {
    files::remove(file);
    for (int run = 0; run < 2; ++run) {
      const json run_json = json_of(told(prompt) + cached + Words{"--prefix-cache-size", size});
      EXPECT_EQ(run_json["reused"], run == 0 ? 0 : reused) << size;
    }
  }
}

TEST_F(PrefixCacheFile, IsUsedByARunWithATraceThatCheckPasses) {
  const std::string trace = folder.path() / "t.jsonl";
  for (int run = 0; run < 2; ++run) {
    const json traced = json_of(told(prompt) + cached + Words{"--draft", dflash, "--trace", trace});
    EXPECT_EQ(traced["reused"] > 0, run == 1);
    const std::string stated = "\"reused\":" + traced["reused"].dump();
    EXPECT_EQ(text_of(trace).find(stated) != std::string::npos, run == 1) << stated;
    const Outcome held = run_command({"trace", "check", trace, "--target", target});
    EXPECT_EQ(held.status, 0) << held.out << held.err;
    EXPECT_THAT(held.out, HasSubstr("PASS_EXACT"));
  }
}

}  // namespace
}  // namespace draftproof::test::prefix_cache_test
