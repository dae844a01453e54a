// SPDX-License-Identifier: MIT
// The suffix draft on a text that repeats itself.
#include "ref/drafts/suffix.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "ref/decoding/engine.h"
#include "ref/text/tokenizer.h"
#include "tests/decoding/support.h"
#include "tests/folder.h"
#include "tests/threads.h"

namespace draftproof::suffix_decoding_test {
namespace {

const std::filesystem::path target = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models/tale-target";

/// Asks for a passage that the prompt holds twice and begins a third time.
Request repetition(float temperature) {
  const std::string passage =
      "Everybody in Marl knew Otto Silberstein, the boatman. Every morning he walked down to the river and looked at "
      "the water. ";
  Request request;
  request.prompt = Tokenizer::load(target).encode(passage + passage + "Everybody in Marl");
  request.max_new_tokens = 48;
  request.sampling = {.temperature = temperature};
  return request;
}

TEST(SuffixDraft, LeavesThePlainTextOfTheTaleAndHasDraftTokensAccepted) {
  const Threads one(1);
  ModelFiles files(target);
  Engine engine(files, best_kernels());
  for (const float temperature : {0.0F, 1.0F}) {
    for (const char* draft : {"suffix", "suffix?depth=8,factor=4,min_prob=0,m=7", "ngram-simple+suffix"}) {
      int accepted = 0;
      for (const std::uint64_t seed : {3, 4, 5, 6}) {
        PhiloxSource random(seed);
        const Trace plain = engine.decode({.request = repetition(temperature), .random = random});
        const Trace trace = engine.decode({.request = repetition(temperature), .draft = draft, .random = random});
        EXPECT_EQ(trace.output, plain.output) << draft;
        accepted += trace.statistics.accepted;
      }
      EXPECT_GT(accepted, 0) << draft;
    }
  }
}

TEST(SuffixDraft, WithTheOutputAsItsCorpusNeedsFewRounds) {
  const Threads one(1);
  ModelFiles files(target);
  Engine engine(files, best_kernels());
  PhiloxSource random(3);
  const Trace plain = engine.decode({.request = repetition(1), .random = random});
  const test::Folder folder;
  const std::filesystem::path corpus = folder.path() / "corpus.bin";
  const auto* const bytes = reinterpret_cast<const char*>(plain.output.data());
  test::put(corpus, {bytes, plain.output.size() * sizeof(Token)});
  const Trace trace =
      engine.decode({.request = repetition(1), .draft = "suffix:" + corpus.string() + "?factor=8", .random = random});
  EXPECT_EQ(trace.output, plain.output);
  EXPECT_LT(trace.statistics.rounds, 16);
}

}  // namespace
}  // namespace draftproof::suffix_decoding_test
