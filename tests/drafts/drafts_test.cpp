// SPDX-License-Identifier: MIT
#include "kernels/kernels.h"
#include "ref/base/error.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/none.h"
#include "ref/models/hash.h"
#include "ref/models/models.h"
#include "tests/drafts/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>


namespace draftproof::drafts_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of_name(const std::string& name) {
  try {
    parse_draft_name(name);
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
  for (const Row& row : {Row{"none", "none", ""}, Row{"always-reject", "always-reject", ""},
                         Row{"perfect", "perfect", ""}, Row{"tree-test", "tree-test", ""},
                         Row{"dflash:a/b", "dflash", "a/b"},
                         Row{"model:/c", "model", "/c"}, Row{"model:C:/with:colons", "model", "C:/with:colons"},
                         Row{"dflash::", "dflash", ":"}}) {
    const DraftName name = parse_draft_name(row.name);
    EXPECT_STREQ(name.kind->name, row.kind);
    EXPECT_EQ(name.path, row.path) << row.name;
  }
}

TEST(DraftNames, ThatAreUnknownAreErrorsThatListTheKnownOnes) {
  for (const char* name : {"", "None", "dflashing:x", ":x", "eagle:x", " none", "none ", "model "}) {
    EXPECT_THAT(error_of_name(name),
                AllOf(HasSubstr("'" + std::string(name) + "' is not known"), HasSubstr("none, dflash:PATH, model:PATH"),
                      HasSubstr("always-reject"), HasSubstr("perfect")))
        << name;
  }
  EXPECT_EQ(error_of_name("dflash"), "draft 'dflash' needs a path: dflash:PATH");
  EXPECT_EQ(error_of_name("model:"), "draft 'model:' needs a path: model:PATH");
  EXPECT_EQ(error_of_name("none:x"), "draft 'none:x' takes no path");
  EXPECT_EQ(error_of_name("always-reject:"), "draft 'always-reject:' takes no path");
}

TEST(DraftKinds, HaveDistinctNamesASummaryAndAFunctionThatOpensThem) {
  std::set<std::string> names;
  for (const DraftKind& kind : all_draft_kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second);
    EXPECT_NE(std::string(kind.summary), "");
    EXPECT_NE(kind.load, nullptr);
    EXPECT_EQ(parse_draft_name(std::string(kind.name) + (kind.takes_path ? ":p" : "")).kind, &kind);
    EXPECT_TRUE(kind.takes_path || !kind.needs_target) << "features are read by a checkpoint";
  }
}

TEST(DraftKinds, WithoutAPathProposeFiveTokensByDefaultAndNeverMoreThanTheTextHasPositions) {
  const auto target = make_hash_model({.vocabulary = 5});
  for (const char* name : {"always-reject", "perfect", "tree-test"}) {
    const auto drafter = parse_draft_name(name).kind->load(nullptr, *target, best_kernels());
    EXPECT_EQ(drafter->open(40, 0)->draft_max(), 5);
    EXPECT_EQ(drafter->open(40, -7)->draft_max(), 5);
    EXPECT_EQ(drafter->open(40, 9)->draft_max(), 9);
    EXPECT_EQ(drafter->open(3, 0)->draft_max(), 3);
    EXPECT_EQ(drafter->open(3, 2147483647)->draft_max(), 3);
  }
  EXPECT_EQ(parse_draft_name("none").kind->load(nullptr, *target, best_kernels())->open(40, 9)->draft_max(), 0);
}

TEST(DraftKinds, WithALimitedContextRejectALongerText) {
  const std::filesystem::path models = std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/models";
  const auto target = load_model(Checkpoint(models / "tale-target"), best_kernels());
  for (const char* name : {"model:tale-small", "dflash:tale-dflash"}) {
    const DraftName draft = parse_draft_name(name);
    const Checkpoint files(models / draft.path);
    const auto drafter = draft.kind->load(&files, *target, best_kernels());
    EXPECT_NE(drafter->open(1024, 0), nullptr);
    try {
      drafter->open(1025, 0);
      ADD_FAILURE() << name << " has 1024 positions";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("1024 positions"), HasSubstr("1025")));
    }
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
