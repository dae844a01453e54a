// SPDX-License-Identifier: MIT
#include "tools/grown_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "kernels/kernels.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/text/tokenizer.h"
#include "tests/tools/command.h"

namespace draftproof::test::grown_model_test {
namespace {

const std::string models = fixture("models/");

// Every width grows, some of them not by a whole number, and each old KV head becomes two.
constexpr SyntheticShape larger = {"larger", "qwen3", 9, 320, 500, 10, 5, 128, 3000, 512, 1e6F, 1e-6F};

// For a small draft model, whose heads are as many as before.
constexpr SyntheticShape smaller = {"smaller", "qwen3", 3, 160, 300, 4, 2, 64, 3000, 512, 1e6F, 1e-6F};

std::string write(const Folder& folder, const std::string& name, const SyntheticShape& shape, std::uint64_t seed = 1) {
  const GrownModel model = grown(Checkpoint(models + name), shape, seed);
  const files::path to = folder.path() / name;
  files::create_directory(to);
  write_safetensors(to / "model.safetensors", model.tensors);
  put(to / "config.json", model.config);
  return to;
}

std::string why(const std::string& name, const SyntheticShape& shape) {
  try {
    grown(Checkpoint(files::path(models) / name), shape, 1);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// A draft of the shipped models, and how it is asked.
struct Drafted {
  const char* kind;
  const char* name;
  const char* options;
  const SyntheticShape* shape;
};

TEST(GrownModelSlow, SaysWhatTheSmallModelSaysAndItsDraftsAreAcceptedAsOften) {
  const Folder folder;
  ModelFiles small_files(models + "tale-target");
  ModelFiles large_files(write(folder, "tale-target", larger));
  // In bf16 the activations of the two are rounded at other places, and close choices come out differently.
  const LoadOptions in_floats(best_kernels(), Quantization::f32, KvFormat::f32);
  Engine small_engine(small_files, in_floats);
  Engine large_engine(large_files, in_floats);
  EXPECT_EQ(large_engine.target().vocabulary(), larger.vocabulary);
  Request request;
  request.prompt = Tokenizer::load(files::path(models + "tale-target/tokenizer.json"))
                       .encode("Long ago, near the mill of Kestrel Bay, there lived a shepherd");
  request.max_new_tokens = 48;
  for (const float temperature : {0.0F, 1.0F}) {
    request.sampling.temperature = temperature;
    for (const Drafted& draft : {Drafted{"dflash", "tale-dflash", "", &larger},
                                 {"eagle3", "tale-eagle3", "", &larger},
                                 {"eagle3", "tale-eagle3", "?tree=16", &larger},
                                 {"mtp", "tale-mtp", "", &larger},
                                 {"mtp", "tale-mtp", "?tree=8", &larger},
                                 {"model", "tale-small", "", &smaller}}) {
      SCOPED_TRACE(std::string(draft.name) + draft.options + " at " + std::to_string(temperature));
      const auto decoded = [&](Engine& engine, const std::string& path) {
        PhiloxSource random(1);
        return engine.decode(
            {.request = request, .draft = std::string(draft.kind) + ":" + path + draft.options, .random = random});
      };
      const std::string grown = folder.path() / draft.name;
      const Trace small = decoded(small_engine, models + draft.name);
      const Trace large = decoded(large_engine, files::exists(grown) ? grown : write(folder, draft.name, *draft.shape));
      EXPECT_EQ(large.output, small.output);
      ASSERT_EQ(large.rounds.size(), small.rounds.size());
      for (std::size_t i = 0; i < small.rounds.size(); ++i) {
        EXPECT_EQ(large.rounds[i].proposal.tokens, small.rounds[i].proposal.tokens) << i;
        EXPECT_EQ(large.rounds[i].accepted, small.rounds[i].accepted) << i;
      }
      EXPECT_GT(small.tokens_per_round(), 2);
    }
  }
}

TEST(GrownModel, HasBytesThatDependOnTheSeedOnly) {
  const auto bytes = [](std::uint64_t seed) {
    const Folder folder;
    return text_of(write(folder, "tale-small", larger, seed) + "/model.safetensors");
  };
  EXPECT_EQ(bytes(1), bytes(1));
  EXPECT_NE(bytes(1), bytes(2));
}

TEST(GrownModel, IsRefusedWhereItDoesNotFitOrIsOfAnotherKind) {
  const auto with = [](const auto& change) {
    SyntheticShape shape = larger;
    change(shape);
    return shape;
  };
  using testing::HasSubstr;
  EXPECT_THAT(why("tale-target", with([](auto& s) { s.hidden = 192; })), HasSubstr("193 coordinates"));
  EXPECT_THAT(why("tale-target", with([](auto& s) { s.layers = 5; })), HasSubstr("6 layers do not fit into 5"));
  EXPECT_THAT(why("tale-target", with([](auto& s) { s.vocabulary = 2000; })), HasSubstr("2048 tokens"));
  EXPECT_THAT(why("tale-target", with([](auto& s) { s.head_dim = 48; })), HasSubstr("head_dim"));
  EXPECT_THAT(why("tale-target", with([](auto& s) { s.kv_heads = 2; })), HasSubstr("queries of one key"));
  EXPECT_THAT(why("tale-target", with([](auto& s) { s.architecture = "llama"; })), HasSubstr("dense Qwen3"));
  EXPECT_THAT(why("tale-hybrid", larger), HasSubstr("only a Qwen3"));
  EXPECT_THAT(why("tale-hybrid-mtp", larger), HasSubstr("only a Qwen3"));
  EXPECT_THAT(why("tale-eagle3", with([](auto& s) { s.layers = 5; })), HasSubstr("6 layers do not fit into 5"));
  const Folder folder;
  const files::path normed = folder.path() / "normed";
  files::copy(models + "tale-eagle3", normed);
  put(normed / "config.json", text_of(normed / "config.json").replace(0, 1, R"({"norm_output": true,)"));
  EXPECT_THAT(why(normed, larger), HasSubstr("norm_output"));
}

TEST(GrowSlow, WritesAFolderThatTellsTheTaleOfTheSmallModel) {
  const Folder folder;
  const std::string to = folder.path() / "grown";
  const Outcome outcome = run_command({"grow", models + "tale-small", "--shape", "qwen3-72m", to, "--quiet"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const auto told = [](const std::string& model) {
    return run_command({"generate", model, "--prompt", "Long ago, near the mill of", "-n", "12"}).out;
  };
  EXPECT_EQ(told(to), told(models + "tale-small"));
  EXPECT_GT(told(to).size(), 30U);
}

TEST(Grow, KeepsNothingOfAFolderThatItCannotCreate) {
  const Folder folder;
  const std::string to = folder.path() / "none" / "x";
  const Outcome outcome = run_command({"grow", models + "tale-small", "--shape", "qwen3-0.6b", to});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, testing::HasSubstr("cannot be created"));
  const Outcome exists = run_command({"grow", models + "tale-small", "--shape", "qwen3-0.6b", folder.path()});
  EXPECT_EQ(exists.status, 3);
  EXPECT_THAT(exists.err, testing::HasSubstr("does not exist"));
  EXPECT_TRUE(files::is_empty(folder.path()));
}

}  // namespace
}  // namespace draftproof::test::grown_model_test
