// SPDX-License-Identifier: MIT
// Drafts that read the target's keys and values over ranks, of which each has some: proposals, verdicts and caches of
// every round are those of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tests/decoding/support.h"
#include "tests/models/fixtures.h"
#include "tests/ranks/thread_ranks.h"

namespace draftproof::test::drafts_over_ranks_test {
namespace {

/// What a run consists of, but for its times.
struct Run {
  std::vector<Token> output;
  std::vector<std::vector<Token>> proposals;
  std::vector<Fingerprint> digests;
  int accepted = 0;

  bool operator==(const Run&) const = default;
};

Run run_of(const std::filesystem::path& target, const std::string& draft, Ranks* ranks, float temperature,
           const Rule& rule) {
  LoadOptions options = best_kernels();
  options.ranks = ranks;
  ModelFiles files(target);
  Engine engine(files, options);
  PhiloxSource random(7);
  Asked request = asked({}, 16, 4, {.temperature = temperature});
  for (int i = 0; i < 9; ++i) request.prompt.push_back((7 * i * i + 3 * i + 5) % 47);
  const Trace trace = engine.decode({.request = request,
                                     .execution = request,
                                     .draft = draft,
                                     .rule = rule,
                                     .random = random,
                                     .recording = Recording::digests});
  Run run;
  run.output = trace.output;
  run.accepted = trace.statistics.accepted;
  for (const Round& round : trace.rounds) {
    run.proposals.push_back(round.proposal.tokens);
    run.digests.insert(run.digests.end(), round.logits.begin(), round.logits.end());
    run.digests.push_back(round.cache);
  }
  return run;
}

/// Returns how many draft tokens were accepted in one process.
int expect_same(const std::filesystem::path& target, const std::string& draft, const std::vector<int>& counts) {
  int accepted = 0;
  for (const auto& [temperature, rule] : {std::pair(0.0F, &matching), std::pair(1.0F, &rejection)}) {
    const Run alone = run_of(target, draft, nullptr, temperature, *rule);
    accepted += alone.accepted;
    for (const int count : counts) {
      with_ranks(count, [&](Ranks& ranks) {
        EXPECT_TRUE(run_of(target, draft, &ranks, temperature, *rule) == alone)
            << target << " with " << draft << " over " << count << " ranks";
      });
    }
  }
  return accepted;
}

/// Every tiny model that 4 bits make smaller drafts for itself.
TEST(DraftsOverRanks, SelfProposesWhatItProposesInOneProcess) {
  int seen = 0;
  int accepted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(external_dir)) {
    const std::string name = entry.path().filename().string();
    if (name.find("-tiny") == std::string::npos || !std::filesystem::exists(entry.path() / "config.json")) continue;
    try {
      accepted += expect_same(entry.path(), "self", {3});
      ++seen;
    } catch (const Error& refused) {  // rows that are too short for 4 bits
      EXPECT_THAT(refused.what(), testing::HasSubstr("as its own draft it would be as slow"));
    }
  }
  EXPECT_GT(seen, 30);
  EXPECT_GT(accepted, 0);
}

TEST(DraftsOverRanks, SelfWithAPartOfItsLayersOrItsHeadProposesTheSame) {
  for (const char* const draft : {"self?layers=1", "self?type=q8,head=20", "ngram-simple?n=1,m=2+self"}) {
    expect_same(external_dir / "qwen3-tiny-sharded", draft, {1, 2, 4});
  }
}

TEST(DraftsOverRanks, AnAssistantOfGemma4ProposesTheSameInChainsAndTrees) {
  int accepted = 0;
  for (const auto& [target, assistant] :
       {std::pair("gemma4-tiny", "gemma4-assistant"), {"gemma4-tiny-donors", "gemma4-assistant-ordered"}}) {
    for (const char* const how : {"", "?tree=7"}) {
      accepted += expect_same(external_dir / target, "mtp:" + (external_dir / assistant).string() + how, {1, 2, 3, 4});
    }
  }
  const std::filesystem::path models = tale_target.parent_path();
  accepted += expect_same(models / "tale-gemma", "mtp:" + (models / "tale-gemma-assistant").string(), {2, 4});
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace draftproof::test::drafts_over_ranks_test
