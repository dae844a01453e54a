// SPDX-License-Identifier: MIT
// What the shipped drafts that say several tokens in one pass are worth on the tale, and what a confidence head leaves
// out of it. The figures are those of fixtures/models/README.md, with some room.
#include <gtest/gtest.h>

#include <fstream>

#include "ref/decoding/engine.h"
#include "ref/text/tokenizer.h"
#include "tests/decoding/support.h"
#include "tests/threads.h"

namespace draftproof::shipped_drafts_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

struct Told {
  std::vector<std::vector<Token>> texts;
  int rounds = 0;
  int drafted = 0;

  double tokens_per_round() const {
    std::size_t tokens = 0;
    for (const auto& text : texts) tokens += text.size();
    return static_cast<double>(tokens) / rounds;
  }
};

/// Goes on with the first of the shipped prompts.
Told told_with(Engine& engine, const std::string& draft, float temperature = 0) {
  const Tokenizer tokenizer = Tokenizer::load(models / "tale-target");
  std::ifstream prompts(models / "prompts.txt");
  PhiloxSource random(1);
  Told told;
  std::string prompt;
  for (int i = 0; i < 4 && std::getline(prompts, prompt); ++i) {
    const Asked request = asked(tokenizer.encode(prompt), 96, 7, {.temperature = temperature});
    const Trace trace = engine.decode({.request = request, .draft = draft, .random = random});
    told.texts.push_back(trace.output);
    told.rounds += trace.statistics.rounds;
    told.drafted += trace.statistics.drafted;
  }
  return told;
}

class ShippedDrafts : public ::testing::Test {
 protected:
  static std::string named(const std::string& kind, const std::string& folder) {
    return kind + ":" + (models / folder).string();
  }
  const Threads one_{1};
  ModelFiles files_{models / "tale-target"};
  Engine engine_{files_, best_kernels()};
};

TEST_F(ShippedDrafts, SayMuchOfATaleInARound) {
  const Told plain = told_with(engine_, "none");
  for (const auto& [kind, folder, bound] :
       {std::tuple("dflash", "tale-dspark", 4.8), {"eagle3", "tale-peagle", 3.8}, {"pard", "tale-pard", 3.5}}) {
    const Told told = told_with(engine_, named(kind, folder));
    EXPECT_EQ(told.texts, plain.texts) << folder;
    EXPECT_GT(told.tokens_per_round(), bound) << folder;
  }
}

TEST_F(ShippedDrafts, AConfidenceHeadLeavesOutDraftTokensThatWouldBeRejected) {
  const Told all = told_with(engine_, named("dflash", "tale-dspark"), 1);
  const Told sure = told_with(engine_, named("dflash", "tale-dspark") + "?min_confidence=0.5", 1);
  EXPECT_EQ(sure.texts, all.texts);
  EXPECT_LT(sure.drafted, 0.9 * all.drafted);
  EXPECT_GT(sure.tokens_per_round(), 0.9 * all.tokens_per_round());
}

}  // namespace
}  // namespace draftproof::shipped_drafts_test
