// SPDX-License-Identifier: MIT
// Drafts that say their tokens in one pass, P-EAGLE heads and PARD models, behind the shipped targets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/drafts/drafts.h"
#include "tests/decoding/parallel_head.h"
#include "tests/decoding/support.h"
#include "tests/threads.h"

namespace draftproof::parallel_drafts_test {
namespace {

using testing::HasSubstr;

const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";
const std::string small = (models / "tale-small").string();
const std::string pard = "pard:" + (models / "tale-pard").string();

Asked tale(int max_new_tokens, Sampling sampling = {}) {
  return asked({1, 5, 9, 2, 7, 4, 4, 8, 3}, max_new_tokens, 3, sampling);
}

TEST(ParallelDrafts, GiveTheTextOfPlainDecodingByMatchingAndOneOfItsOwnByTheOthers) {
  const Threads one(1);
  for (const auto& [target, head_of] :
       {std::pair("tale-target", "tale-peagle"), {"tale-hybrid", "tale-hybrid-eagle3"}, {"tale-gemma", ""}}) {
    const test::Folder folder;
    std::vector<std::string> drafts = {pard, pard + "?tree=12", pard + "?min_prob=0.3", "suffix+" + pard};
    if (*head_of != '\0') {
      const bool shipped = std::string(head_of) == "tale-peagle";
      const std::string head =
          shipped ? "eagle3:" + (models / head_of).string() : test::parallel_head(models / head_of, folder.path());
      drafts.insert(drafts.end(), {head, head + "?tree=12", head + "?kv=q8,type=q4", head + "?min_prob=0.3"});
    }
    ModelFiles files(models / target);
    Engine engine(files, best_kernels());
    for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1}}) {
      PhiloxSource random(5);
      const Asked request = tale(40, sampling);
      const auto text_with = [&](const std::string& draft, const Rule& rule) {
        return engine.decode(
            {.request = request, .execution = request, .draft = draft, .rule = rule, .random = random});
      };
      const std::vector<Token> plain = text_with("none", matching).output;
      for (const std::string& draft : drafts) {
        EXPECT_EQ(engine.gate(draft), Gate::open) << draft;
        const Trace by_matching = text_with(draft, matching);
        EXPECT_EQ(by_matching.output, plain) << target << ", " << draft;
        EXPECT_GT(by_matching.statistics.accepted, 0) << target << ", " << draft;
        EXPECT_LT(by_matching.statistics.accepted, by_matching.statistics.drafted) << target << ", " << draft;
        for (const Rule* const rule : {&rejection, &block}) {
          const Trace trace = text_with(draft, *rule);
          if (sampling.temperature == 0) {
            EXPECT_EQ(trace.output, plain) << target << ", " << draft;
          }
          EXPECT_GT(trace.statistics.accepted, 0) << target << ", " << draft;
        }
      }
    }
  }
}

TEST(ParallelDrafts, AreKnownByTheirMaskToken) {
  const test::Folder folder;
  for (const auto& entry : std::filesystem::directory_iterator(models / "tale-small")) {
    std::filesystem::copy(entry.path(), folder.path() / entry.path().filename());
  }
  const std::string path = folder.path().string();
  const auto write = [&](const char* field, const nlohmann::json& value) {
    auto config = nlohmann::json::parse(bytes_of_file(models / "tale-small" / "config.json"));
    config[field] = value;
    test::put(folder.path() / "config.json", config.dump());
  };
  ModelFiles files(models / "tale-target");
  const auto refusal = [&](const std::string& draft) {
    try {
      ModelFiles fresh(models / "tale-target");
      Engine(fresh, best_kernels()).gate(draft);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  write("pard_token", 4);
  EXPECT_EQ(kind_of_draft(Checkpoint(folder.path())), "pard");
  EXPECT_EQ(refusal(path), "");
  EXPECT_EQ(refusal("pard:" + path + "?mask=4"), "");
  EXPECT_EQ(refusal("model:" + path), "") << "one token at a time";
  EXPECT_THAT(refusal("pard:" + path + "?mask=5"), HasSubstr("names the mask token 4, and mask=5 another one"));
  EXPECT_THAT(refusal("pard:" + path + "?tree=4,min_prob=0.5"), HasSubstr("leave it out for a tree"));
  write("pard_token", 2048);
  EXPECT_THAT(refusal("pard:" + path), HasSubstr("pard_token"));
  write("ptd_token_id", 4);
  EXPECT_EQ(refusal("pard:" + path), "");
  write("pard2", true);
  EXPECT_THAT(refusal("pard:" + path + "?mask=4"), HasSubstr("pard2: must be false; PARD-2"));
  EXPECT_EQ(kind_of_draft(Checkpoint(small)), "model");
  EXPECT_THAT(refusal("pard:" + small), HasSubstr("names no mask token"));
  EXPECT_THAT(refusal("pard:" + small + "?mask=2048"), HasSubstr("is no token of its vocabulary of 2048"));
}

}  // namespace
}  // namespace draftproof::parallel_drafts_test
