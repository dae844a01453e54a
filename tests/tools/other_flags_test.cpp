// SPDX-License-Identifier: MIT
#include "tools/other_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tools/command_line.h"
#include "tests/tools/command.h"

namespace draftproof::test::other_flags_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A command with some options of ours.
struct Small {
  Small() {
    command.option("target,-m,--model MODEL", model, "m");
    command.option("--draft", draft, "d");
    command.option("--max-new-tokens,-n", count, "n");
    command.flag("--quiet", quiet, "q");
  }
  CommandLine line{"draftproof", "", [] { return std::string(); }};
  Command& command = line.root().subcommand("generate", "");
  std::string model, draft;
  int count = 0;
  bool quiet = false;
};

TEST(OtherFlags, AreWrittenAsOursOrTakenOutWithANote) {
  const Small small;
  Words words = {"generate", "-hf", "owner/name", "-md",     "small.gguf", "-ngl", "99",  "--n-predict=5",
                 "-fa",      "on",  "-fa",        "--quiet", "--mlock",    "-c",   "4096"};
  const Words notes = translate_flags(small.command, words);
  EXPECT_THAT(words, ElementsAre("generate", "--model", "owner/name", "--draft", "small.gguf", "--max-new-tokens=5",
                                 "--quiet"));
  ASSERT_EQ(notes.size(), 5U);
  EXPECT_THAT(notes[0], testing::AllOf(HasSubstr("-ngl"), HasSubstr("CPU")));
}

TEST(OtherFlags, AValueThatIsMissingIsNotTheNextFlag) {
  const Small small;
  Words words = {"generate", "-ngl", "--quiet", "-c", "-1", "-ngl"};
  EXPECT_EQ(translate_flags(small.command, words).size(), 3U);
  EXPECT_THAT(words, ElementsAre("generate", "--quiet"));
}

TEST(OtherFlags, ValuesAndWhatTheCommandHasNotStay) {
  const Small small;
  const Words words = {"generate", "-m", "-ngl",        "--draft", "-c", "--seed", "3",
                       "-s",       "4",  "--draft-min", "2",       "--", "-ngl"};
  Words same = words;
  EXPECT_TRUE(translate_flags(small.command, same).empty());
  EXPECT_EQ(same, words) << "-ngl and -c are values here, --seed and --parallel are no options of this command";
}

TEST(OtherFlags, AreNamedOnceAndEachSaysWhatItIs) {
  std::set<std::string_view> names;
  for (const OtherFlag& flag : other_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    const bool is_obeyed = flag.use == OtherFlag::Use::obeyed;
    EXPECT_EQ(flag.ours.empty(), !is_obeyed) << flag.name;
    EXPECT_EQ(flag.text.empty(), is_obeyed) << flag.name;
    EXPECT_EQ(instead_of(flag.name).empty(), flag.use != OtherFlag::Use::refused) << flag.name;
  }
}

/// As its users type it.
TEST(OtherFlags, OfLlamaCppGiveTheTextOfOurs) {
  const std::string model = fixture("models/tale-target");
  const Outcome ours = run_command({"generate", "-m", model, "-p", "Once", "-n", "12", "--seed", "3"});
  const Outcome theirs = run_command(
      {"generate", "-m", model, "-p", "Once", "--n-predict", "12", "-s", "3", "-ngl", "99", "-fa", "on", "-no-cnv"});
  EXPECT_EQ(theirs.status, 0) << theirs.err;
  EXPECT_EQ(theirs.out, ours.out);
  EXPECT_NE(ours.out, "");
  const Outcome refused = run_command({"generate", "-m", model, "-p", "Once", "--draft-p-min", "0.5"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr("min_prob"));
}

}  // namespace
}  // namespace draftproof::test::other_flags_test
