// SPDX-License-Identifier: MIT
// The shipped models besides the demo's: a hybrid target and one whose layers slide, each with drafts made for it, and
// a model of the form of Llama 2.
#include <gtest/gtest.h>

#include <filesystem>

#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/formats/json.h"
#include "ref/models/models.h"
#include "ref/text/tokenizer.h"
#include "tests/decoding/support.h"
#include "tests/threads.h"

namespace draftproof::tales_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

/// What transformers told greedily when the model was made.
struct Told {
  std::string prompt;
  std::vector<Token> tokens;
};

Told told_by(const std::filesystem::path& model) {
  const Json greedy = Json::read(model / "training.json").at("greedy");
  Told told = {greedy.at("prompt").string(), {}};
  for (const std::int64_t id : greedy.at("tokens").integers(0, 1 << 20)) told.tokens.push_back(static_cast<Token>(id));
  return told;
}

TEST(Tales, AModelOfTheFormOfLlama2TellsItsTaleFromTextToText) {
  const Threads one(1);
  const std::filesystem::path folder = models / "tale-llama";
  const Told told = told_by(folder);
  const Tokenizer tokenizer = Tokenizer::load(folder);
  ModelFiles files(folder);
  Engine engine(files, best_kernels());
  Asked request = asked(tokenizer.encode(told.prompt), static_cast<int>(told.tokens.size()));
  EXPECT_EQ(request.prompt.front(), 1) << "BOS";
  request.stops = read_stop_tokens(files.target());
  PhiloxSource random(1);
  const Trace trace = engine.decode({.request = request, .random = random});
  EXPECT_EQ(trace.output, told.tokens);
  std::vector<Token> text = request.prompt;
  text.insert(text.end(), trace.output.begin(), trace.output.end());
  EXPECT_TRUE(tokenizer.decode(text).starts_with(told.prompt + " ")) << tokenizer.decode(text);
}

/// Told as transformers told it, and with each draft at two temperatures and by both rules; every draft is of use, and
/// is rolled back without reading rows one by one.
void expect_told_speculatively(const char* target, const std::vector<std::pair<std::string, const char*>>& drafts) {
  const Threads one(1);
  const Told told = told_by(models / target);
  const Tokenizer tokenizer = Tokenizer::load(models / target);
  ModelFiles files(models / target);
  Engine engine(files, best_kernels());
  for (const float temperature : {0.0F, 0.8F}) {
    for (const Rule* rule : {&matching, &rejection, &block}) {
      Asked request =
          asked(tokenizer.encode(told.prompt), static_cast<int>(told.tokens.size()), 7, {.temperature = temperature});
      request.stops = read_stop_tokens(files.target());
      PhiloxSource random(5);
      const Trace plain = engine.decode({.request = request, .execution = request, .random = random});
      if (temperature == 0) {
        EXPECT_EQ(plain.output, told.tokens);
      }
      for (const auto& [kind, folder] : drafts) {
        const std::string draft = kind + (models / folder).string();
        const Trace trace =
            engine.decode({.request = request, .execution = request, .draft = draft, .rule = *rule, .random = random});
        if (rule == &matching || temperature == 0) {
          EXPECT_EQ(trace.output, plain.output) << draft;
        }
        EXPECT_EQ(trace.statistics.serial, 0) << draft;
        EXPECT_GT(2 * trace.statistics.accepted, trace.statistics.rounds) << draft << " is of use";
        EXPECT_GT(trace.statistics.drafted, trace.statistics.accepted) << draft << " was rolled back";
      }
    }
  }
}

TEST(Tales, TheHybridTargetTellsItsTaleSpeculativelyAndRollsItsRecurrentStatesBack) {
  expect_told_speculatively(
      "tale-hybrid",
      {{"dflash:", "tale-hybrid-dflash"}, {"eagle3:", "tale-hybrid-eagle3"}, {"mtp:", "tale-hybrid-mtp"}});
}

/// The tale is longer than the window, and the last layers have no keys of their own.
TEST(Tales, ATargetWhoseLayersSlideTellsItsTaleSpeculativelyBeyondTheirWindow) {
  const Json config = Json::read(models / "tale-gemma/config.json");
  EXPECT_GT(told_by(models / "tale-gemma").tokens.size(), config.at("sliding_window").integer(1, 1 << 20));
  EXPECT_GT(config.at("num_kv_shared_layers").integer(0, 1 << 20), 0);
  expect_told_speculatively("tale-gemma", {{"model:", "tale-hybrid"}, {"mtp:", "tale-gemma-assistant"}});
}

/// 512 SentencePiece pieces draft for 2048 tokens of BPE of bytes, and the other way round.
TEST(Tales, DraftForEachOtherThroughText) {
  const Threads one(1);
  for (const auto& [target, draft] : {std::pair("tale-target", "tale-llama"), {"tale-llama", "tale-target"}}) {
    ModelFiles files(models / target);
    Engine engine(files, best_kernels());
    const std::string translated = "model:" + (models / draft).string() + "?translate=1";
    const Tokenizer tokenizer = Tokenizer::load(files.target());
    for (const float temperature : {0.0F, 1.0F}) {
      for (const Rule* rule : {&matching, &rejection, &block}) {
        Asked request = asked(tokenizer.encode("Everybody in Marl knew Zoë Silberstein, the boatman."), 40, 7,
                              {.temperature = temperature});
        request.stops = read_stop_tokens(files.target());
        PhiloxSource random(5);
        const Trace plain = engine.decode({.request = request, .execution = request, .random = random});
        const Trace trace = engine.decode(
            {.request = request, .execution = request, .draft = translated, .rule = *rule, .random = random});
        if (rule == &matching || temperature == 0) {
          EXPECT_EQ(trace.output, plain.output) << target;
        }
        EXPECT_GT(trace.statistics.accepted, 0) << target;
        EXPECT_GT(trace.statistics.drafted, trace.statistics.accepted) << target;
        for (const Round& round : trace.rounds) {
          for (const Distribution& q : round.proposal.drawn_from) EXPECT_TRUE(q.is_point());
        }
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::tales_test
