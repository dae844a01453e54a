// SPDX-License-Identifier: MIT
// Every measurement runs, measures what was asked for, and writes what docs/bench.md states. Speed is not tested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ref/formats/checkpoint.h"
#include "tests/folder.h"
#include "tests/tools/command.h"

namespace draftproof::test::bench_test {
namespace {

using nlohmann::json;

const std::string target = fixture("models/tale-target");

json measured(std::vector<std::string> words) {
  words.insert(words.begin(), "bench");
  words.insert(words.end(), {"--repeats", "3", "--json", "-", "--quiet"});
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return json::parse(outcome.out, nullptr, false);
}

void expect_spread(const json& spread) {
  EXPECT_GT(spread["min"].get<double>(), 0);
  EXPECT_GE(spread["median"], spread["min"]);
  EXPECT_GE(spread["max"], spread["median"]);
}

void expect_limits(const json& limits) {
  for (const char* limit : {"bytes_read_per_second", "float_multiplications_per_second",
                            "bf16_multiplications_per_second", "byte_multiplications_per_second"}) {
    expect_spread(limits[limit]);
  }
}

void expect_rates(const json& rates) {
  expect_spread(rates["milliseconds"]);
  EXPECT_GT(rates["bytes_per_second"].get<double>(), 0);
  EXPECT_GT(rates["share_of_limit"].get<double>(), 0);
}

TEST(Bench, TokenizerTimesBothWays) {
  const json said = measured({"tokenizer", target, "--text", fixture("models/prompts.txt")});
  EXPECT_EQ(said["command"], "bench tokenizer");
  expect_limits(said["limits"]);
  EXPECT_GT(said["bytes"], said["tokens"]);
  for (const char* way : {"encode", "decode"}) {
    expect_spread(said[way]["milliseconds"]);
    EXPECT_GT(said[way]["megabytes_per_second"].get<double>(), 0);
  }
}

TEST(Bench, DecodeComparesPassesWithOneRowAndWithTheLimitsOfTheMachine) {
  const json said = measured({"decode", target, "--rows", "4,2", "--context", "8"});
  EXPECT_EQ(said["command"], "bench decode");
  EXPECT_EQ(said["repeats"], 3);
  expect_limits(said["limits"]);
  std::vector<int> rows;
  for (const json& row : said["rows"]) {
    rows.push_back(row["rows"]);
    expect_rates(row);
    expect_spread(row["cost"]);
    const json& outside = row["outside_kernels"];
    expect_spread(outside["share"]);
    expect_spread(outside["microseconds_per_layer"]);
    EXPECT_LT(outside["share"]["max"], 1.0);
  }
  EXPECT_THAT(rows, testing::ElementsAre(1, 2, 4));
  EXPECT_EQ(said["rows"][0]["cost"]["min"], 1.0);
  EXPECT_EQ(said["rows"][0]["cost"]["max"], 1.0);
}

TEST(Bench, DecodeCountsNoTableOfWhichOnlyRowsAreRead) {
  const std::string gemma = fixture("external/gemma4-tiny-shared");
  double bytes = 0;
  const Checkpoint files(gemma);
  for (const auto& [name, tensor] : files.tensors()) {
    const bool table = name == "model.embed_tokens_per_layer.weight";
    if (tensor.shape.size() == 2 && !table) bytes += static_cast<double>(tensor.bytes);
  }
  const json result = measured({"decode", gemma, "--context", "8", "--rows", "1"});
  EXPECT_EQ(result["bytes_of_weights"], bytes);
}

// What is seen is what the files hold; of experts only what rows choose, which is more for more rows.
TEST(Bench, DecodeCountsTheExpertsThatRowsChoose) {
  const json dense = measured({"decode", target, "--context", "8", "--rows", "1,16"});
  EXPECT_EQ(dense["rows"][1]["bytes_of_weights"], dense["rows"][0]["bytes_of_weights"]);
  const std::string sparse = fixture("external/qwen3-moe-tiny-mixed");
  const json said = measured({"decode", sparse, "--context", "8", "--rows", "1,16"});
  double all = 0;
  const Checkpoint files(sparse);
  for (const auto& [name, tensor] : files.tensors()) {
    if (tensor.shape.size() > 1 && name != "model.embed_tokens.weight") all += static_cast<double>(tensor.bytes);
  }
  const double one = said["rows"][0]["bytes_of_weights"];
  const double many = said["rows"][1]["bytes_of_weights"];
  EXPECT_LT(one, many);
  EXPECT_LE(many, all);
  EXPECT_GE(1e-12 + said["rows"][1]["cost_min"].get<double>(), many / one);  // the same, but for rounding, or more
}

TEST(Bench, PrefillMeasuresTheRequestedPromptLengths) {
  const json said = measured({"prefill", target, "--prompt-lengths", "5,130"});
  expect_limits(said["limits"]);
  ASSERT_EQ(said["prompts"].size(), 2U);
  EXPECT_EQ(said["prompts"][1]["length"], 130);
  for (const json& prompt : said["prompts"]) expect_rates(prompt);
}

TEST(Bench, PrefixMeasuresTheFirstTokenColdAndWarm) {
  const json said =
      measured({"prefix", target, "--prefix-lengths", "20,90", "--draft", "dflash:" + fixture("models/tale-dflash")});
  ASSERT_EQ(said["prefixes"].size(), 2U);
  EXPECT_EQ(said["prefixes"][1]["length"], 90);
  for (const json& prefix : said["prefixes"]) EXPECT_GT(prefix["ratio"]["median"], 0);
}

// The options change the measured work: the bytes of the weights, and the memory of the KV cache.
TEST(BenchSlow, AppliesQuantizationAndKvFormat) {
  const auto decoded = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"decode", target, "--rows", "1", "--context", "8"});
    return measured(flags);
  };
  const json plain = decoded({});
  const json narrow = decoded({"--quantize", "q8"});
  const json short_keys = decoded({"--kv", "q8"});
  EXPECT_EQ(plain["quantize"], "none");
  EXPECT_EQ(narrow["quantize"], "q8");
  EXPECT_EQ(short_keys["kv"], "q8");
  EXPECT_LT(narrow["bytes_of_weights"], plain["bytes_of_weights"]);
  EXPECT_LT(narrow["memory_bytes"], plain["memory_bytes"]);
  EXPECT_EQ(short_keys["bytes_of_weights"], plain["bytes_of_weights"]);
  EXPECT_LT(short_keys["memory_bytes"], plain["memory_bytes"]);

  const auto read = [](std::vector<std::string> flags) {  // bytes, out of what is said
    flags.insert(flags.begin(), {"prefill", target, "--prompt-lengths", "5"});
    const json said = measured(flags);
    const json& prompt = said["prompts"][0];
    return prompt["bytes_per_second"].get<double>() * prompt["milliseconds"]["median"].get<double>();
  };
  EXPECT_LT(1.5 * read({"--quantize", "q4", "--kv", "bf16"}), read({}));

  const json speculated = measured({"drafters", target, "--draft", "always-reject", "--prompt", "Once",
                                    "--max-new-tokens", "3", "--quantize", "q8", "--kv", "bf16"});
  EXPECT_EQ(speculated["quantize"], "q8");
  EXPECT_EQ(speculated["kv"], "bf16");
}

TEST(BenchSlow, KernelsMeasuresEveryRequestedOperationAndType) {
  const json said = measured(
      {"kernels", "--types", "q8_0,f32", "--rows", "1,3", "--contexts", "17", "--outputs", "48", "--inputs", "32768"});
  std::vector<std::string> names;
  for (const json& group : said["groups"]) {
    expect_limits(group["limits"]);
    for (const json& operation : group["operations"]) {
      expect_rates(operation);
      names.push_back(operation["operation"].get<std::string>() + " " + operation["variant"].get<std::string>());
    }
  }
  EXPECT_THAT(names, testing::ElementsAre(
                         "matmul q8_0", "matmul q8_0", "matmul f32", "matmul f32", "attention f32, context 17",
                         "attention f32, context 17", "attention bf16, context 17", "attention bf16, context 17",
                         "attention q8, context 17", "attention q8, context 17", "rms_norm ", "rms_norm ", "rope ",
                         "rope ", "silu_multiply ", "silu_multiply ", "add ", "add "));
}

TEST(Bench, SamplingMeasuresEveryKindOfRowUnderEverySetting) {
  const json said = measured({"sampling", "--vocabulary", "1000"});
  EXPECT_EQ(said["vocabulary"], 1000);
  expect_limits(said["limits"]);
  EXPECT_EQ(said["rows"].size(), 30U);
  for (const json& row : said["rows"]) {
    for (const char* part : {"to_read", "to_draw", "a_draft_token_by_matching", "a_draft_token_by_rejection"})
      expect_spread(row[std::string("milliseconds_") + part]);
  }
}

TEST(Bench, KernelsMeasuresEveryOperationOnUpTo512RowsByDefault) {
  const std::string help = run_command({"bench", "kernels", "--help"}).out;
  EXPECT_THAT(help, testing::HasSubstr("[default: 1,2,4,8,16,32,64,128,512]"));
  EXPECT_THAT(help, testing::HasSubstr("matmul,attention,rms_norm,rope,silu_multiply,add]"));
  EXPECT_THAT(help, testing::HasSubstr("all when left out: f32, f16, bf16, q8_0, q4_0, q4_1,"));
}

TEST(BenchSlow, DraftersComparesDraftsAndTheTunerWithPlainDecodingAndWithTheSpeedToExpect) {
  const json said = measured({"drafters", target, "--draft", "dflash:" + fixture("models/tale-dflash"), "always-reject",
                              "--prompt", "Once upon a time", "--max-new-tokens", "12", "--draft-lengths", "2,4"});
  ASSERT_EQ(said["texts"].size(), 1U);
  const json& text = said["texts"][0];
  EXPECT_EQ(text["text"], "prompt");
  std::vector<std::string> ways;
  for (const json& draft : text["drafts"]) ways.push_back(draft["draft_max"]);
  EXPECT_THAT(ways, testing::ElementsAre("", "2", "4", "auto", "2", "4", "auto"));
  const json& plain = text["drafts"][0];
  EXPECT_EQ(plain["draft"], "none");
  EXPECT_DOUBLE_EQ(plain["possible_speed_up"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(plain["expected_speed_up"].get<double>(), 1.0);
  EXPECT_EQ(plain["speed_up"]["median"], 1.0);
  EXPECT_GT(text["drafts"][2]["statistics"]["accepted"], 0);
  EXPECT_EQ(text["drafts"][5]["statistics"]["accepted"], 0);
  for (const json& draft : text["drafts"]) {
    expect_spread(draft["milliseconds"]);
    expect_spread(draft["speed_up"]);
  }
  EXPECT_EQ(text["passes"][0]["rows"], 1);
  EXPECT_GE(text["passes"].back()["rows"], 5);
}

/// Holds the sums over all texts to the texts.
void expect_totals(const json& said) {
  for (std::size_t way = 0; way < said["all"].size(); ++way) {
    std::size_t rounds = 0;
    for (const json& text : said["texts"]) rounds += text["drafts"][way]["statistics"]["rounds"].get<std::size_t>();
    EXPECT_EQ(said["all"][way]["rounds"], rounds);
    EXPECT_GT(said["all"][way]["speed_up"], 0);
  }
  EXPECT_EQ(said["all"].size(), said["texts"][0]["drafts"].size());
}

TEST(BenchSlow, DraftersContinuesEveryPromptOfAFile) {
  const Folder folder;
  const std::string file = folder.path() / "prompts.txt";
  put(file, "Once upon a time\nA fox lived\n");
  const std::string tree = "dflash:" + fixture("models/tale-dflash") + "?tree=3";
  const json said = measured({"drafters", target, "--draft", tree, "suffix", "--prompts", file, "-n", "3"});
  EXPECT_EQ(said["texts"].size(), 2U);
  EXPECT_EQ(said["all"].size(), 4U) << "none, the tree, suffix, and suffix with a tuner";
  expect_totals(said);
}

TEST(BenchSlow, DraftersContinuesATextOfEveryKindWithoutAPrompt) {
  const json said = measured({"drafters", target, "--draft", "suffix", "--max-new-tokens", "24"});
  std::vector<std::string> texts;
  for (const json& text : said["texts"]) texts.push_back(text["text"]);
  EXPECT_THAT(texts, testing::ElementsAre("story", "edit", "code"));
  expect_totals(said);
}

TEST(Bench, BatchComparesNumbersOfSequencesPlainAndWithADraft) {
  const std::string draft = "dflash:" + fixture("models/tale-dflash");
  const json said = measured({"batch", target, "--draft", draft, "--draft-max", "4", "--sequences", "3,2",
                              "--prompt-length", "8", "--max-new-tokens", "6"});
  EXPECT_EQ(said["command"], "bench batch");
  EXPECT_EQ(said["prompt_length"], 8);
  EXPECT_EQ(said["max_new_tokens"], 6);
  expect_limits(said["limits"]);
  std::vector<std::string> cases;
  for (const json& batch : said["batches"]) {
    const int sequences = batch["sequences"];
    const bool plain = batch["draft"] == "none";
    cases.push_back(std::to_string(sequences) + (plain ? " plain" : " with a draft"));
    expect_rates(batch);
    for (const char* field : {"tokens_per_second", "milliseconds_per_token", "speed_up", "over_plain"}) {
      expect_spread(batch[field]);
    }
    if (plain) {
      EXPECT_EQ(batch["passes"], 6);
      EXPECT_EQ(batch["rows_per_pass"], sequences);
      EXPECT_EQ(batch["shared"], sequences > 1 ? 1 : 0);
      EXPECT_EQ(batch["over_plain"]["max"], 1.0);
    } else {
      EXPECT_EQ(batch["draft"], draft);
      EXPECT_LE(batch["passes"], 6);
      EXPECT_GT(batch["rows_per_pass"], 1);
    }
    if (sequences == 1) {
      EXPECT_EQ(batch["speed_up"]["max"], 1.0);
    }
  }
  EXPECT_THAT(cases, testing::ElementsAre("1 plain", "1 with a draft", "2 plain", "2 with a draft", "3 plain",
                                          "3 with a draft"));
}

TEST(Bench, PrintsATableWithTheLimitsAboveIt) {
  const Outcome outcome = run_command({"bench", "decode", target, "--rows", "1,2", "--repeats", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("limits here .*GB/s read"));
  EXPECT_EQ(outcome.err, "");  // progress is shown on terminals only
}

TEST(Bench, RefusesBadOptionsWithOneMessage) {
  struct Case {
    std::vector<std::string> words;
    const char* said;
  };
  for (const Case& bad : std::vector<Case>{
           {{"bench"}, "subcommand"},
           {{"bench", "decode"}, "TARGET"},
           {{"bench", "tokenizer", target}, "--text"},
           {{"bench", "tokenizer", target, "--text", "/nonexistent"}, "/nonexistent"},
           {{"bench", "decode", target, "--rows", "0"}, "--rows"},
           {{"bench", "decode", target, "--repeats", "0"}, "--repeats"},
           {{"bench", "decode", target, "--context", "1000000"}, "positions of the model"},
           {{"bench", "decode", target, "--kernels", "cuda"}, "cuda"},
           {{"bench", "decode", target, "--quantize", "q5"}, "--quantize"},
           {{"bench", "prefill", target, "--kv", "q4"}, "--kv"},
           {{"bench", "decode", target, "--json", target + "/config.json"}, "overwrite"},
           {{"bench", "decode", "/nonexistent"}, "/nonexistent"},
           {{"bench", "batch", target, "--sequences", "0"}, "--sequences"},
           {{"bench", "batch", target, "--prompt-length", "1000"}, "1064"},
           {{"bench", "batch", target, "--draft", "dflash:" + target}, "name it as model:PATH"},
           {{"bench", "prefill", target, "--prompt-lengths", "1000000"}, "1000001"},
           {{"bench", "kernels", "--types", "iq3"}, "'iq3'"},
           {{"bench", "kernels", "--ops", "matmul", "--types", "q4_k", "--inputs", "128"}, "multiple of 256"},
           {{"bench", "kernels", "--ops", "convolution"}, "--ops"},
           {{"bench", "sampling", "--vocabulary", "0"}, "--vocabulary"},
           {{"bench", "drafters", target, "--prompt", "a"}, "--draft"},
           {{"bench", "drafters", target, "--prompts", "/dev/null", "--draft", "suffix"}, "holds no prompt"},
           {{"bench", "drafters", target, "--prompt", "a", "--draft", "suffix", "-n", "0"}, "--max-new-tokens"},
           {{"bench", "drafters", target, "--prompt", "a", "--draft", "dflash:" + target}, "name it as model:PATH"}}) {
    const Outcome outcome = run_command(bad.words);
    EXPECT_EQ(outcome.status, 3) << testing::PrintToString(bad.words);
    EXPECT_THAT(outcome.err, testing::HasSubstr(bad.said)) << testing::PrintToString(bad.words);
    EXPECT_EQ(outcome.out, "") << testing::PrintToString(bad.words);
  }
}

}  // namespace
}  // namespace draftproof::test::bench_test
