// SPDX-License-Identifier: MIT
// --lora, as a user gives it. What is merged is compared with other programs in tests/models/lora_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ref/formats/checkpoint.h"
#include "ref/formats/hdf5.h"
#include "tests/tools/command.h"
#include "tools/convert/gguf_model.h"
#include "tools/weights_digest.h"

namespace draftproof::test::lora_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string target = fixture("external/llama-tiny-biased");
const std::string adapter = fixture("external/lora-llama-tiny-biased");
const Words floats = {"--quantize", "f32", "--kv", "f32"};

Words generated(const Words& more) {
  return Words{"generate", target, "--prompt-tokens", "5,9,31,7", "--max-new-tokens", "12"} + more;
}

json json_of(const Words& words) {
  const Outcome outcome = run_command(words + Words{"--json", "-"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

TEST(Lora, GeneratesTheGreedyTokensOfPeft) {
  const Hdf5 answers = Hdf5::open(adapter + "/answers.h5");
  std::string prompt;
  for (const std::int32_t token : answers.read<std::int32_t>("/tokens").values) prompt += std::to_string(token) + ",";
  prompt.pop_back();
  const Words asked = Words{"generate", target, "--prompt-tokens", prompt, "--max-new-tokens", "12"} + floats;
  const std::vector<std::int32_t> greedy = answers.read<std::int32_t>("/greedy").values;
  for (const Words& lora : {Words{"--lora", adapter}, Words{"--lora", adapter + "/adapter.gguf"},
                            Words{"--lora", adapter + "=0.25", "--lora", adapter + "=0.75"}}) {
    const json answer = json_of(asked + lora);
    std::vector<std::int32_t> tokens = answer["tokens"];
    // A stop token ends our text, which PEFT was told to ignore.
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), greedy.begin())) << answer.dump();
    EXPECT_GE(tokens.size(), 3U);
  }
  EXPECT_NE(json_of(asked)["tokens"], json_of(asked + Words{"--lora", adapter})["tokens"]);
}

TEST(Lora, IsExactWithDrafts) {
  const Outcome outcome = run_command({"verify", target, "--lora", adapter, "--draft", "self", "model:" + target,
                                       "--prompt-tokens", "5,9,31,7", "--max-new-tokens", "16", "--effort", "quick"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(target + " with --lora " + adapter));
}

TEST(Lora, IsInTheWeightsOfTheDraftSelfAndNotInThoseOfAModelOfItsOwn) {
  const auto accepted = [](const std::string& draft) {
    const Words words = generated({"--lora", adapter, "--draft-max", "4", "--draft", draft});
    const json statistics = json_of(words)["statistics"];
    return statistics["accepted"].get<double>() / statistics["drafted"].get<double>();
  };
  EXPECT_GT(accepted("self"), 0.75);
  EXPECT_LT(accepted("model:" + target), 0.5);
}

TEST(Lora, IsPartOfTheWeightsThatATraceAndAPrefixCacheName) {
  const Folder folder;
  const std::string trace = (folder.path() / "trace.jsonl").string();
  ASSERT_EQ(run_command(generated({"--lora", adapter, "--draft", "self", "--trace", trace, "--quiet"})).status, 0);
  const Words check = {"trace", "check", trace, "--target", target};
  EXPECT_EQ(run_command(check + Words{"--lora", adapter}).status, 0);
  for (const Words& other : {Words{}, Words{"--lora", adapter + "=0.5"}, Words{"--lora", adapter, "--lora", adapter}}) {
    const Outcome outcome = run_command(check + other);
    EXPECT_EQ(outcome.status, 3);
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("the trace was made with other weights"));
  }

  const Words cached = {"--prefix-cache", (folder.path() / "prefixes.h5").string()};
  const json first = json_of(generated(cached + Words{"--lora", adapter}));
  const json again = json_of(generated(cached + Words{"--lora", adapter}));
  EXPECT_GT(again["reused"], 0);
  EXPECT_EQ(again["tokens"], first["tokens"]);
  EXPECT_EQ(run_command(generated(cached)).status, 3);
  EXPECT_EQ(run_command(generated(cached + Words{"--lora", adapter + "=2"})).status, 3);

  Checkpoint merged(target);
  const std::string alone = weights_fingerprint(merged);
  EXPECT_EQ(alone, weights_fingerprint(std::filesystem::path(target)));
  merged.merge({adapter});
  EXPECT_NE(weights_fingerprint(merged), alone);
}

TEST(Lora, GivesAGgufOfTheTargetTheBitsOfTheFolder) {
  const Folder folder;
  const std::string gguf = (folder.path() / "target.gguf").string();
  const Checkpoint alone(target);
  const GgufFamily& family = gguf_family_for(alone.config(), GgufReader::llama_cpp);
  GgufFields fields;
  add_model_fields(alone, family, Format::f32, fields);
  write_gguf(gguf, fields, gguf_tensors(alone, family, Format::f32));
  Checkpoint expected(target);
  expected.merge({adapter});
  for (const std::string& path : {adapter, adapter + "/adapter.gguf"}) {
    Checkpoint merged(gguf);
    merged.merge({path});
    std::size_t compared = 0;
    for (const auto& [name, tensor] : expected.tensors()) {
      if (!merged.has(name)) continue;  // the tied head
      EXPECT_EQ(merged.floats(name, tensor.shape), expected.floats(name, tensor.shape)) << path << " " << name;
      ++compared;
    }
    EXPECT_GT(compared, 14U);
  }
}

TEST(Lora, IsDescribedByInspect) {
  const json described = json::parse(run_command({"inspect", target, "--lora", adapter + "=2", "--json"}).out);
  ASSERT_EQ(described["adapters"].size(), 1U);
  const json& one = described["adapters"][0];
  EXPECT_EQ(one["path"], adapter);
  EXPECT_EQ(one["scale"], 2);
  EXPECT_EQ(one["changed_matrices"], 14);
  EXPECT_EQ(one["matrices_that_become_bf16"], 0);
  EXPECT_EQ(one["bytes_more"], 0);
  EXPECT_FALSE(json::parse(run_command({"inspect", target, "--json"}).out).contains("adapters"));
  EXPECT_THAT(run_command({"inspect", target, "--lora", adapter}).out, HasSubstr("changed_matrices: 14"));
}

TEST(Lora, ThatDoesNotFitIsOneSentence) {
  const Folder folder;
  const std::string fixture_file = (folder.path() / "x.h5").string();
  const std::vector<std::pair<Words, std::string>> wrong = {
      {generated({"--lora", adapter + "=much"}), "is no number to scale the adapter by"},
      {generated({"--lora", "/nowhere"}), "/nowhere: no such folder or file"},
      {generated({"--lora", target}), "has no adapter_config.json"},
      {generated({"--lora", fixture("external/lora-qwen2-tiny-untied")}), "lora-qwen2-tiny-untied"},
      {{"generate", adapter, "--prompt-tokens", "1"}, "give it to --lora"},
      {generated({"--lora-scaled", adapter, "0.5"}), "--lora PATH=SCALE"},
      {{"fixture", "record", target, fixture_file, "--reason", "x", "--prompt-tokens", "1", "--lora", adapter},
       "--lora: fixtures cannot say it yet"},
      {{"inspect", target + "/config.json", "--lora", adapter}, "has no weights"},
      {generated({"--lora", adapter, "--json", adapter + "/adapter_config.json"}), "would overwrite an input"}};
  for (const auto& [words, message] : wrong) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.status, 3) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

}  // namespace
}  // namespace draftproof::test::lora_test
