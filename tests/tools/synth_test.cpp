// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/command.h"

namespace draftproof::test::synth_test {
namespace {

using nlohmann::json;

const std::vector<std::string> types{"f32",    "f16",  "bf16", "q8_0", "q4_0",   "q4_1",  "q5_0", "q5_1",
                                     "iq4_nl", "q4_k", "q5_k", "q6_k", "iq4_xs", "mxfp4", "q2_k", "q3_k"};

std::string synthesized(const Folder& folder, const std::string& name, std::vector<std::string> flags) {
  const std::string file = (folder.path() / name).string();
  flags.insert(flags.begin(), {"synth", file, "--shape", "tiny"});
  const Outcome outcome = run_command(flags);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return file;
}

TEST(Synth, WritesBytesThatDependOnTheSeedButNotOnThreads) {
  for (const std::string& type : types) {
    const Folder folder;
    const std::string one = text_of(synthesized(folder, "1.gguf", {"--type", type, "--seed", "5", "--threads", "1"}));
    EXPECT_EQ(one, text_of(synthesized(folder, "2.gguf", {"--type", type, "--seed", "5", "--threads", "3"}))) << type;
    EXPECT_NE(one, text_of(synthesized(folder, "3.gguf", {"--type", type, "--seed", "6"}))) << type;
  }
}

TEST(Synth, WritesModelsOfEveryTypeThatDecode) {
  for (const std::string& type : types) {
    const Folder folder;
    const std::string model = synthesized(folder, "model.gguf", {"--type", type});
    const Outcome outcome =
        run_command({"generate", model, "--prompt-tokens", "1,2,3", "--max-new-tokens", "6", "--quiet", "--json", "-"});
    ASSERT_EQ(outcome.status, 0) << type << outcome.err;
    EXPECT_GE(json::parse(outcome.out)["tokens"].size(), 1U) << type;
  }
}

TEST(Synth, LeavesNoFileWhenItCannotWrite) {
  const Folder folder;
  const Outcome outcome =
      run_command({"synth", "--shape", "tiny", "--type", "f32", (folder.path() / "none" / "x.gguf").string()});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, testing::HasSubstr("cannot be written"));
  EXPECT_TRUE(files::is_empty(folder.path()));
}

TEST(Synth, ListsShapesAndTypes) {
  const Folder folder;
  const std::string file = (folder.path() / "x.gguf").string();
  const Outcome shape = run_command({"synth", "--shape", "qwen3-9b", "--type", "f32", file});
  EXPECT_EQ(shape.status, 3);
  EXPECT_THAT(shape.err, testing::HasSubstr("choose one of tiny, qwen3-72m, qwen3-0.6b"));
  const Outcome type = run_command({"synth", "--shape", "tiny", "--type", "iq3_s", file});
  EXPECT_EQ(type.status, 3);
  EXPECT_THAT(type.err, testing::HasSubstr("q8_0"));
  EXPECT_EQ(run_command({"synth", "--shape", "tiny", "--type", "f32"}).status, 3);
  EXPECT_TRUE(files::is_empty(folder.path()));
}

}  // namespace
}  // namespace draftproof::test::synth_test
