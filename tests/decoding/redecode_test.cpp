// SPDX-License-Identifier: MIT
// Verification that reads the accepted rows again after a rejection.
#include "ref/decoding/engine.h"
#include "ref/text/tokenizer.h"
#include "tests/decoding/support.h"
#include "tests/threads.h"

#include <gtest/gtest.h>

namespace draftproof::redecode_test {
namespace {

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";

/// Of targets with attention, with a recurrent state and with layers that slide, for chains and trees.
TEST(Redecode, GivesTheRowsAndTheCachesOfABatchedVerification) {
  const Threads one(1);
  for (const auto& [target, kind, folder] : {std::tuple("tale-target", std::string("dflash:"), "tale-dflash"),
                                             {"tale-hybrid", "dflash:", "tale-hybrid-dflash"},
                                             {"tale-gemma", "mtp:", "tale-gemma-assistant"}}) {
    ModelFiles files(models / target);
    Engine engine(files, best_kernels());
    Request request;
    request.prompt = Tokenizer::load(models / target).encode("Once upon a time there was a king who");
    request.max_new_tokens = 40;
    for (const std::string& draft : {kind + (models / folder).string(), std::string("tree-test"),
                                     std::string("always-reject"), std::string("perfect")}) {
      for (const Rule* const rule : {&matching, &rejection, &block}) {
        request.sampling.temperature = 1;
        PhiloxSource random(5);
        const Trace batched = engine.decode(
            {.request = request, .draft = draft, .rule = *rule, .random = random, .recording = Recording::digests});
        const Trace again = engine.decode({.request = request,
                                           .execution = {.verification = Verification::redecode},
                                           .draft = draft,
                                           .rule = *rule,
                                           .random = random,
                                           .recording = Recording::digests});
        ASSERT_EQ(again.rounds.size(), batched.rounds.size()) << target << ", " << draft;
        for (std::size_t i = 0; i < again.rounds.size(); ++i) {
          EXPECT_EQ(again.rounds[i].emitted, batched.rounds[i].emitted);
          EXPECT_EQ(again.rounds[i].logits, batched.rounds[i].logits);
          EXPECT_EQ(again.rounds[i].cache, batched.rounds[i].cache);
          EXPECT_EQ(again.rounds[i].draft, batched.rounds[i].draft);
        }
        EXPECT_EQ(again.final_cache, batched.final_cache);
        EXPECT_EQ(again.statistics.batched, again.statistics.iterations);
        EXPECT_EQ(batched.statistics.redecoded, 0);
        if (draft == "perfect") {
          EXPECT_EQ(again.statistics.redecoded, 0);
        } else {
          EXPECT_GT(again.statistics.redecoded, 0);
          EXPECT_EQ(again.statistics.redecoded, recounted(again).redecoded);
        }
      }
    }
  }
}

}  // namespace
}  // namespace draftproof::redecode_test
