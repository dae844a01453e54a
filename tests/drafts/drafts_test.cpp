// SPDX-License-Identifier: MIT
#include "ref/drafts/drafts.h"
#include "kernels/kernels.h"
#include "ref/base/error.h"
#include "ref/drafts/none.h"
#include "ref/models/hash.h"
#include "ref/models/models.h"
#include "tests/drafts/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

namespace draftproof::drafts_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of_name(const std::string& name) {
  try {
    parse_draft_spec(name);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DraftNames, HaveAKindAndForSomeKindsAPath) {
  struct Row {
    const char* name;
    const char* kind;
    const char* path;
  };
  for (const Row& row :
       {Row{"none", "none", ""}, Row{"always-reject", "always-reject", ""}, Row{"perfect", "perfect", ""},
        Row{"tree-test", "tree-test", ""}, Row{"dflash:a/b", "dflash", "a/b"}, Row{"mtp", "mtp", ""},
        Row{"mtp:a/b", "mtp", "a/b"}, Row{"ngram-simple", "ngram-simple", ""}, Row{"model:/c", "model", "/c"},
        Row{"model:C:/with:colons", "model", "C:/with:colons"}, Row{"dflash::", "dflash", ":"},
        Row{"dflash:a+b", "dflash", "a+b"}, Row{"dflash:a+nonesuch", "dflash", "a+nonesuch"},
        Row{"dflash:a?b", "dflash", "a?b"}, Row{"dflash:what?", "dflash", "what?"}}) {
    const DraftSpec spec = parse_draft_spec(row.name);
    ASSERT_EQ(spec.stages.size(), 1U) << row.name;
    EXPECT_STREQ(spec.stages[0].kind->name, row.kind);
    EXPECT_EQ(spec.stages[0].path, row.path) << row.name;
    EXPECT_EQ(spec.name_with_paths([](const auto& path) { return path; }), row.name);
  }
}

/// Those of llama.cpp, vLLM and SGLang.
TEST(DraftNames, OfOtherProgramsAreRead) {
  const auto name_of = [](const std::string& name) {
    return parse_draft_spec(name).name_with_paths([](const auto& path) { return path; });
  };
  EXPECT_EQ(name_of("ngram_simple"), "ngram-simple");
  EXPECT_EQ(name_of("ngram_map_k4v?m=2"), "ngram-map-k4v?m=2");
  EXPECT_EQ(name_of("draft:a/b"), "model:a/b");
  EXPECT_EQ(name_of("draft-simple:a?head=9"), "model:a?head=9");
  EXPECT_EQ(name_of("draft_model:a"), "model:a");
  EXPECT_EQ(name_of("draft-dflash:a?tree=4"), "dflash:a?tree=4");
  EXPECT_EQ(name_of("draft-eagle3:a"), "eagle3:a");
  EXPECT_EQ(name_of("draft-mtp"), "mtp");
  EXPECT_EQ(name_of("nextn:a"), "mtp:a");
  EXPECT_EQ(name_of("ngram_mod+draft-dflash:a+b+ngram_simple"), "ngram-mod+dflash:a+b+ngram-simple");
  EXPECT_EQ(name_of("dflash:a+draft"), "dflash:a+draft") << "which needs a path";
  for (const char* name : {"draft", "draft-dflash", "draft-none", "draft-self"}) {
    EXPECT_THAT(error_of_name(name), HasSubstr("is not known")) << name;
  }
}

/// A "+" behind which a name of another program stands is a part of the path where that is here.
TEST(DraftNames, AreCutBehindAPathThatIsHere) {
  const auto stages = [](const std::string& name) { return parse_draft_spec(name).stages.size(); };
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "draftproof-names";
  const std::string path = (folder / "qwen").string();
  std::filesystem::create_directories(folder);
  EXPECT_EQ(stages("dflash:" + path + "+ngram_mod"), 2U);
  EXPECT_EQ(stages("ngram-simple?n=1+draft-dflash:" + folder.string()), 2U);
  std::filesystem::create_directories(path + "+ngram_mod");
  EXPECT_EQ(stages("dflash:" + path + "+ngram_mod"), 1U);
  EXPECT_EQ(stages("dflash:" + path + "+ngram_mod?type=q4"), 1U);
  std::filesystem::remove_all(folder);
}

TEST(DraftNames, HaveOptionsAndStages) {
  const DraftSpec spec = parse_draft_spec("ngram-simple?m=7,n=2+dflash:a+b/c?d+ngram-simple");
  ASSERT_EQ(spec.stages.size(), 3U);
  EXPECT_EQ(spec.stages[0].integer("n"), 2);
  EXPECT_EQ(spec.stages[0].integer("m"), 7);
  EXPECT_EQ(spec.stages[1].path, "a+b/c?d");
  EXPECT_EQ(spec.stages[2].integer("n"), 3);
  EXPECT_EQ(spec.paths(), std::vector<std::string>{"a+b/c?d"});
  EXPECT_FALSE(spec.none());
  EXPECT_FALSE(spec.trees());
  EXPECT_TRUE(parse_draft_spec("ngram-simple+eagle3:a?tree=3").trees());
  EXPECT_FALSE(parse_draft_spec("eagle3:a?tree=0").trees());
  EXPECT_FALSE(parse_draft_spec("eagle3:a").trees());
  EXPECT_EQ(spec.name_with_paths([](const auto& path) { return "/x" / path; }),
            "ngram-simple?m=7,n=2+dflash:/x/a+b/c?d+ngram-simple");
}

TEST(DraftNames, OfLearnedDraftsHaveTermsInTheWordsOfTheTargetsOptions) {
  for (const char* kind : {"dflash:a", "eagle3:a", "mtp", "mtp:a", "medusa:a", "model:a", "pard:a", "self"}) {
    const std::string name = kind;
    for (const char* type : {"none", "f32", "q8", "q4"}) {
      EXPECT_EQ(parse_draft_spec(name + "?type=" + type).stages[0].word("type"), type) << name;
    }
    EXPECT_EQ(parse_draft_spec(name).stages[0].word("type"), std::nullopt);
    EXPECT_THAT(error_of_name(name + "?type=q5"), HasSubstr("is one of none f32 q8 q4, not 'q5'"));
    EXPECT_THAT(error_of_name(name + "?threads=2"), HasSubstr("has no option 'threads'; there are "));
  }
  for (const char* kind : {"dflash:a", "eagle3:a", "mtp", "model:a", "pard:a"}) {
    const DraftStage stage = parse_draft_spec(std::string(kind) + "?kv=q8,context=48").stages[0];
    EXPECT_EQ(stage.word("kv"), "q8");
    EXPECT_EQ(stage.integer("context"), 48);
    EXPECT_THAT(error_of_name(std::string(kind) + "?kv=q4"), HasSubstr("is one of f32 bf16 q8, not 'q4'"));
    EXPECT_THAT(error_of_name(std::string(kind) + "?context=-1"), HasSubstr("is an integer from 0 to"));
  }
  for (const char* kind : {"medusa:a", "self"}) {
    EXPECT_THAT(error_of_name(std::string(kind) + "?kv=q8"), HasSubstr("has no option 'kv'")) << kind;
  }
  EXPECT_THAT(error_of_name("self?context=9"), HasSubstr("has no option 'context'"));
}

TEST(DraftNames, ReadTheOlderSpellingOfFourBits) {
  const auto name_of = [](const std::string& name) {
    return parse_draft_spec(name).name_with_paths([](const auto& path) { return path; });
  };
  EXPECT_EQ(name_of("dflash:a?q4=1,tree=3"), "dflash:a?tree=3,type=q4");
  EXPECT_EQ(name_of("mtp?q4=0"), "mtp");
  EXPECT_THAT(error_of_name("mtp?q4=2"), HasSubstr("mtp has no option 'q4'"));
  EXPECT_THAT(error_of_name("mtp?q4=1,type=q8"), HasSubstr("mtp has no option 'q4'"));
  EXPECT_THAT(error_of_name("suffix?q4=1"), HasSubstr("suffix has no option 'q4'"));
}

TEST(DraftNames, ThatAreUnknownAreErrorsThatListTheKnownOnes) {
  for (const char* name : {"", "None", "dflashing:x", ":x", "eagle:x", " none", "none ", "model "}) {
    EXPECT_THAT(error_of_name(name),
                AllOf(HasSubstr("'" + std::string(name) + "' is not known"),
                      HasSubstr("none, dflash:PATH, eagle3:PATH, mtp[:PATH], medusa:PATH, model:PATH, pard:PATH"),
                      HasSubstr("always-reject"), HasSubstr("perfect")))
        << name;
  }
  EXPECT_EQ(error_of_name("dflash"), "draft 'dflash' needs a path: dflash:PATH");
  EXPECT_EQ(error_of_name("model:"), "draft 'model:' needs a path: model:PATH");
  EXPECT_EQ(error_of_name("none:x"), "draft 'none:x' takes no path");
  EXPECT_EQ(error_of_name("always-reject:"), "draft 'always-reject:' takes no path");
}

TEST(DraftNames, WithBadOptionsOrStagesAreErrorsThatSayWhatThereIs) {
  EXPECT_EQ(error_of_name("ngram-simple?k=2"),
            "draft 'ngram-simple?k=2': ngram-simple has no option 'k'; there are n, m, legacy");
  EXPECT_EQ(error_of_name("perfect?n=2"), "draft 'perfect?n=2': perfect has no option 'n'; it has none");
  for (const char* value : {"0", "1025", "2.5", "", "x", "-1", "nan", "1e9", "2 "}) {
    EXPECT_THAT(error_of_name("ngram-simple?n=" + std::string(value)),
                HasSubstr("option n of ngram-simple is an integer from 1 to 1024, not '" + std::string(value) + "'"));
  }
  EXPECT_THAT(error_of_name("ngram-simple?n"), HasSubstr("'?n' is not a list of options"));
  EXPECT_THAT(error_of_name("none+ngram-simple"), HasSubstr("none cannot be joined with other drafts"));
  EXPECT_THAT(error_of_name("ngram-simple+none"), HasSubstr("none cannot be joined with other drafts"));
  EXPECT_THAT(error_of_name("dflash:a+ngram-simple+model:b"),
              HasSubstr("dflash and model both keep a cache of the text, and only one stage may"));
}

TEST(DraftKinds, HaveDistinctNamesASummaryAndAFunctionThatOpensThem) {
  std::set<std::string> names;
  for (const DraftKind* const kind : all_draft_kinds()) {
    EXPECT_TRUE(names.insert(kind->name).second);
    EXPECT_NE(std::string(kind->summary), "");
    EXPECT_NE(kind->load, nullptr);
    const bool takes_path = kind->takes_path != TakesPath::none;
    EXPECT_EQ(parse_draft_spec(std::string(kind->name) + (takes_path ? ":p" : "")).stages[0].kind, kind);
    const bool reads_checkpoint =
        kind->takes_path == TakesPath::required || kind->takes_path == TakesPath::optional_checkpoint;
    EXPECT_TRUE(reads_checkpoint || kind->recognizes == nullptr) << "a checkpoint is recognized";
  }
}

std::unique_ptr<Drafter> loaded(const DraftStage& stage, const Checkpoint* files, Model& target) {
  return stage.kind->load(stage, files, target, best_kernels());
}

TEST(DraftKinds, WithoutAPathProposeFiveTokensByDefaultAndNeverMoreThanTheTextHasPositions) {
  const auto target = make_hash_model({.vocabulary = 5});
  for (const char* name : {"always-reject", "perfect", "tree-test"}) {
    const auto drafter = loaded(parse_draft_spec(name).stages[0], nullptr, *target);
    EXPECT_EQ(drafter->open(40, 0)->draft_max(), 5);
    EXPECT_EQ(drafter->open(40, -7)->draft_max(), 5);
    EXPECT_EQ(drafter->open(40, 9)->draft_max(), 9);
    EXPECT_EQ(drafter->open(3, 0)->draft_max(), 3);
    EXPECT_EQ(drafter->open(3, 2147483647)->draft_max(), 3);
  }
  EXPECT_EQ(loaded(parse_draft_spec("none").stages[0], nullptr, *target)->open(40, 9)->draft_max(), 0);
}

TEST(DraftKinds, WithALimitedContextReachAsFar) {
  const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";
  const auto target = load_model(Checkpoint(models / "tale-target"), best_kernels());
  for (const char* name : {"model:tale-small", "dflash:tale-dflash"}) {
    const DraftStage draft = parse_draft_spec(name).stages[0];
    const Checkpoint files(models / draft.path);
    const auto drafter = loaded(draft, &files, *target);
    EXPECT_EQ(drafter->reach(), 1024) << name;
    EXPECT_NE(drafter->open(1024, 0), nullptr);
  }
}

TEST(NoDraft, ProposesNothingAndRemembersNothing) {
  NoDraft draft;
  const std::vector<Token> text = {1, 2, 3};
  PhiloxSource random(1);
  EXPECT_EQ(draft.draft_max(), 0);
  EXPECT_TRUE(draft.taps().empty());
  draft.observe(text, {});
  EXPECT_EQ(draft.digest(), Fingerprint{});
  EXPECT_EQ(propose(draft, text, 3, {}, random).size(), 0);
}

}  // namespace
}  // namespace draftproof::drafts_test
