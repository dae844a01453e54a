// SPDX-License-Identifier: MIT
// draftproof fixture, through the command; and the fixtures we ship.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "kernels/kernels.h"
#include "oracle/fixtures/fixture_file.h"
#include "tests/tools/command.h"

namespace draftproof::test::fixture_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string target = fixture("external/qwen3-tiny-tied");
const std::string draft = "model:" + fixture("external/qwen3-tiny-tied");

/// Returns the tables of the canonical class that this machine can run; scalar is always one of them.
std::vector<std::string> canonical_tables() {
  std::vector<std::string> names;
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    const bool canonical = std::string((*table)->numerics) == "canonical";
    if (canonical && (*table)->supported()) names.emplace_back((*table)->name);
  }
  EXPECT_FALSE(names.empty());
  return names;
}

class Recorded : public testing::Test {
 protected:
  Outcome record(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{
        "fixture",          "record",    target,          file, "--draft", draft, "--prompt-tokens", "5,6,7",
        "--max-new-tokens", "8",         "--temperature", "1",  "--seed",  "3",   "--reason",        "a test",
        "--rule",           "rejection", "--threads",     "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }
  Outcome replay(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"fixture", "replay", file});
    if (std::find(more.begin(), more.end(), "--threads") == more.end()) more.insert(more.end(), {"--threads", "1"});
    return run_command(more);
  }
  /// Edits the fixture, as if the engine had computed something else when it was recorded.
  void change(const std::function<void(Fixture&)>& edit) {
    Fixture fixture = read_fixture(file);
    edit(fixture);
    write_fixture(file, fixture);
  }
  static void change_row(Fixture& fixture) {
    for (FixtureArray& array : fixture.arrays) {
      if (array.name != "rows") continue;
      float& value = std::get<Array<float>>(array.content).values.at(167);
      value = std::nextafter(value, 1e9F);
    }
  }
  const Folder folder;
  const std::string file = (folder.path() / "x.h5").string();
  const std::string received = file + ".received";
};

TEST_F(Recorded, ReplaysWithEqualBitsOnEveryTableOfItsNumericsWithAnyThreads) {
  ASSERT_EQ(record({"--rows"}).status, 0);
  for (const std::string& table : canonical_tables()) {
    const Outcome outcome = replay({"--kernels", table, "--threads", "2"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, file + ": equal on " + table + "\n");
  }
  EXPECT_FALSE(files::exists(received));
}

TEST_F(Recorded, StoresPathsRelativeToItselfAndCanBeMovedWithItsModels) {
  ASSERT_EQ(record().status, 0);
  const Fixture fixture = read_fixture(file);
  EXPECT_FALSE(files::path(fixture.target).is_absolute());
  files::create_directories(folder.path() / "a/b");
  files::rename(file, folder.path() / "a/b/x.h5");
  const std::string moved = (folder.path() / "a/b/x.h5").string();
  const Outcome lost = run_command({"fixture", "replay", moved});
  EXPECT_EQ(lost.status, 3);
  EXPECT_EQ(run_command({"fixture", "replay", moved, "--target", target, "--draft", draft}).status, 0);
}

TEST_F(Recorded, ReplaysThroughLinks) {
  files::create_directories(folder.path() / "deep/er");
  files::create_directory(folder.path() / "real");
  files::create_directory_symlink("../../real", folder.path() / "deep/er/link");  // its .. is another folder
  const std::string linked = (folder.path() / "deep/er/link/x.h5").string();
  ASSERT_EQ(run_command({"fixture", "record", target, linked, "--draft", draft, "--prompt-tokens", "5", "--reason",
                         "a test", "--max-new-tokens", "2", "--threads", "1"})
                .status,
            0);
  const std::string other = (folder.path() / "deep/other.h5").string();
  files::create_symlink("er/link/x.h5", other);
  for (const std::string& name : {linked, (folder.path() / "real/x.h5").string(), other}) {
    EXPECT_EQ(run_command({"fixture", "replay", name, "--threads", "1"}).status, 0) << name;
  }
}

TEST_F(Recorded, IsFoundByItsNameInTheCurrentFolder) {
  const std::string there = "cd " + quoted(folder.path().string()) + " &&";
  ASSERT_EQ(run_command({"fixture", "record", target, "x.h5", "--prompt-tokens", "5", "--reason", "a test",
                         "--max-new-tokens", "2", "--threads", "1"},
                        there)
                .status,
            0);
  EXPECT_EQ(run_command({"fixture", "replay", "x.h5", "--threads", "1"}, there).status, 0);
  EXPECT_TRUE(files::exists(file));
}

TEST_F(Recorded, ShowsTheFirstDifferenceInUlpsAndKeepsTheRunForReview) {
  ASSERT_EQ(record({"--rows"}).status, 0);
  change(change_row);
  const Outcome outcome = replay();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("rows[1, 7] was "), HasSubstr(", 1 ulp; 1 of "),
                                 HasSubstr("the text is the same"), HasSubstr(received)));
  ASSERT_TRUE(files::exists(received));

  const Outcome pending = run_command({"fixture", "review", folder.path().string()});
  EXPECT_EQ(pending.status, 1) << "what CI fails by";
  EXPECT_THAT(pending.out, AllOf(HasSubstr(file + ": pending"), HasSubstr("rows[1, 7]")));
  EXPECT_TRUE(files::exists(received)) << "looking accepts nothing";

  const std::string found = text_of(received);
  const Outcome accepted = run_command({"fixture", "review", folder.path().string(), "--accept", "it was wrong"});
  EXPECT_EQ(accepted.status, 0) << accepted.err;
  EXPECT_FALSE(files::exists(received));
  EXPECT_EQ(read_fixture(file).reason, "it was wrong");
  EXPECT_EQ(replay().status, 0);
  EXPECT_EQ(run_command({"fixture", "review", folder.path().string()}).status, 0);
}

TEST_F(Recorded, AgainHasNothingPending) {
  ASSERT_EQ(record().status, 0);
  files::copy(file, received);
  ASSERT_EQ(record({"--verify", "serial"}).status, 0);
  EXPECT_FALSE(files::exists(received));
}

TEST_F(Recorded, RefusesAReceivedFileOfAnotherRequest) {
  ASSERT_EQ(record().status, 0);
  files::copy(file, received);
  change([](Fixture& fixture) { fixture.seed = 4; });
  const std::string before = text_of(file);
  const Outcome pending = run_command({"fixture", "review", received});
  EXPECT_EQ(pending.status, 1) << "looking is allowed";
  EXPECT_THAT(pending.out, HasSubstr("asked with another seed: 3, not 4"));
  const Outcome refused = run_command({"fixture", "review", received, "--accept", "why"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr(received + ": its seed is not that of the fixture: 3, not 4"));
  EXPECT_EQ(text_of(file), before);
  EXPECT_TRUE(files::exists(received));
}

TEST_F(Recorded, AreAcceptedAllOrNoneAndOnceEach) {
  ASSERT_EQ(record().status, 0);
  files::copy(file, folder.path() / "a.h5.received");
  put(received, "half a fi");
  const std::string all = folder.path().string();
  const Outcome refused = run_command({"fixture", "review", all, "--accept", "why"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_TRUE(files::exists(folder.path() / "a.h5.received")) << "accepted before all were read";
  files::remove(received);
  files::create_directory_symlink(".", folder.path() / "link");
  const std::vector<std::string> thrice{"fixture", "review", all, all + "/link/a.h5.received", all + "/./"};
  EXPECT_THAT(run_command(thrice).err, HasSubstr("1 pending;"));
  std::vector<std::string> words = thrice;
  words.insert(words.end(), {"--accept", "why", "--json", "-"});
  const Outcome accepted = run_command(words);
  EXPECT_EQ(accepted.status, 0) << accepted.err;
  EXPECT_EQ(json::parse(accepted.out, nullptr, false).at("fixtures").size(), 1U);
  EXPECT_EQ(read_fixture(folder.path() / "a.h5").reason, "why");
}

TEST_F(Recorded, IsWrittenThroughALink) {
  ASSERT_EQ(record().status, 0);
  const std::string real = (folder.path() / "real.h5").string();
  files::rename(file, real);
  files::create_symlink("real.h5", file);
  files::copy_file(real, received);
  EXPECT_EQ(run_command({"fixture", "review", received, "--accept", "why"}).status, 0);
  EXPECT_TRUE(files::is_symlink(file));
  EXPECT_EQ(read_fixture(real).reason, "why");
  EXPECT_EQ(record().status, 0);
  EXPECT_TRUE(files::is_symlink(file));
  EXPECT_EQ(read_fixture(real).reason, "a test");
}

TEST_F(Recorded, WritesTheDifferenceAsJson) {
  ASSERT_EQ(record({"--rows"}).status, 0);
  change(change_row);
  const Outcome outcome = replay({"--json", "-", "--kernels", "scalar"});
  EXPECT_EQ(outcome.status, 1);
  const json result = json::parse(outcome.out, nullptr, false).at("fixtures").at(0);
  EXPECT_EQ(result["equal"], false);
  EXPECT_EQ(result["kernels"], "scalar");
  EXPECT_EQ(result["arrays"].at(0)["array"], "rows");
  EXPECT_EQ(result["arrays"].at(0)["index"], "[1, 7]");
  EXPECT_EQ(result["arrays"].at(0)["ulps"], 1);
  EXPECT_FALSE(result.contains("first_token"));
}

TEST_F(Recorded, IsNoLongerPendingOnceAReplayIsEqual) {
  ASSERT_EQ(record().status, 0);
  files::copy(file, received);
  EXPECT_EQ(replay().status, 0);
  EXPECT_FALSE(files::exists(received));
}

TEST_F(Recorded, InOtherNumericsIsComparedButNeverReceived) {
  ASSERT_EQ(record().status, 0);
  change([](Fixture& fixture) { fixture.numerics = "of another machine"; });
  put(received, "what waits in its own class");
  EXPECT_EQ(replay().status, 0) << "equal bits are equal bits";
  EXPECT_TRUE(files::remove(received)) << "another class settles nothing";
  change([](Fixture& fixture) { std::get<Array<std::uint64_t>>(fixture.arrays.front().content).values.front() ^= 1; });
  const Outcome outcome = replay();
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("of another machine"), HasSubstr("logits[0] was")));
  EXPECT_FALSE(files::exists(received));
}

TEST_F(Recorded, WithAnotherDraftOrTargetIsComparedAndLeavesTheReceivedFile) {
  ASSERT_EQ(record().status, 0);
  for (const bool waits : {false, true}) {
    if (waits) put(received, "what was found before");
    Outcome outcome = replay({"--draft", "none"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr(" with draft none, not the recorded model:"), HasSubstr("rounds[0, "),
                                   testing::Not(HasSubstr(received))));
    const std::string copy = (folder.path() / "copy").string();
    files::copy(target, copy, files::copy_options::recursive | files::copy_options::skip_existing);
    outcome = replay({"--target", copy});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr(" with target " + copy + ", not the recorded "));
    outcome = replay({"--target", copy, "--draft", "none", "--json", "-"});
    EXPECT_EQ(outcome.status, 1);
    const json result = json::parse(outcome.out, nullptr, false).at("fixtures").at(0);
    EXPECT_EQ(result.value("target", ""), copy);
    EXPECT_EQ(result.value("draft", ""), "none");
    EXPECT_EQ(files::exists(received), waits);
    EXPECT_EQ(waits ? text_of(received) : "", waits ? "what was found before" : "");
  }
}

TEST_F(Recorded, DraftThatBecomesWorseIsAPerfRegressionAndOneThatBecomesBetterIsNot) {
  const auto record_with = [&](const std::string& name, const std::string& of) {
    return run_command({"fixture", "record", target, name, "--draft", of, "--prompt-tokens", "5,6,7", "--reason",
                        "a test", "--max-new-tokens", "160", "--temperature", "1", "--threads", "1"});
  };
  ASSERT_EQ(record_with(file, draft).status, 0);
  Outcome outcome = replay({"--draft", "ngram-simple"});
  EXPECT_EQ(outcome.status, 4) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("the text is the same"),
                                 HasSubstr("PERF_REGRESSION: the draft is worse in this one, from position 3, ")));
  outcome = replay({"--draft", "ngram-simple", "--json", "-"});
  const json result = json::parse(outcome.out, nullptr, false).at("fixtures").at(0);
  EXPECT_EQ(result.value("perf_regression", "").rfind("position 3, ", 0), 0U);
  const auto& accepted = result.at("accepted_draft_tokens");
  EXPECT_GT(accepted.at(0).get<int>(), 2 * accepted.at(1).get<int>());

  const std::string worse = (folder.path() / "worse.h5").string();
  ASSERT_EQ(record_with(worse, "ngram-simple").status, 0);
  EXPECT_EQ(run_command({"fixture", "diff", file, worse}).status, 4);
  outcome = run_command({"fixture", "diff", worse, file});
  EXPECT_EQ(outcome.status, 1) << "it differs";
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("PERF_REGRESSION")));
  outcome = run_command({"fixture", "replay", file, worse, "--draft", "ngram-simple", "--threads", "1"});
  EXPECT_EQ(outcome.status, 4) << "one of the two";
}

TEST_F(Recorded, WorseDraftOfTheRecordedSpecIsWrittenForReview) {
  ASSERT_EQ(run_command({"fixture", "record", target, file, "--draft", draft, "--prompt-tokens", "5,6,7", "--reason",
                         "a test", "--max-new-tokens", "160", "--temperature", "1", "--threads", "1"})
                .status,
            0);
  change([](Fixture& fixture) { fixture.draft = "ngram-simple"; });  // as if this had been good once
  const Outcome outcome = replay();
  EXPECT_EQ(outcome.status, 4);
  EXPECT_THAT(outcome.out, HasSubstr(received));
  const Outcome pending = run_command({"fixture", "review", received});
  EXPECT_EQ(pending.status, 1) << "what CI fails by";
  EXPECT_THAT(pending.out, HasSubstr("PERF_REGRESSION"));
}

TEST_F(Recorded, AcceptsOtherSpellingsOfTheRecordedDraftAndTarget) {
  ASSERT_EQ(record().status, 0);
  change([](Fixture& fixture) { std::get<Array<std::uint64_t>>(fixture.arrays.front().content).values.front() ^= 1; });
  const std::vector<std::string> spelled{"--target", target + "/../qwen3-tiny-tied/", "--draft", draft + "/."};
  const Outcome outcome = replay(spelled);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("not the recorded")));
  EXPECT_TRUE(files::exists(received));
}

TEST_F(Recorded, DiffNamesRequestsThatDiffer) {
  ASSERT_EQ(record().status, 0);
  const std::string other = file + ".other";
  files::copy(file, other);
  EXPECT_EQ(run_command({"fixture", "diff", file, other}).status, 0);
  files::remove(other);
  files::rename(file, other);
  ASSERT_EQ(record({"--verify", "serial"}).status, 0);
  const Outcome outcome = run_command({"fixture", "diff", other, file});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("asked with another verification: serial, not batched"));
  EXPECT_THAT(outcome.out, HasSubstr("the text is the same")) << "serial verification changes no token";
}

TEST_F(Recorded, OverwritesNothingButAFixture) {
  ASSERT_EQ(record().status, 0);
  ASSERT_EQ(record().status, 0);
  put(file, "a letter");
  const Outcome outcome = record();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr(file + ": not an HDF5 file"));
  EXPECT_EQ(text_of(file), "a letter");
}

TEST_F(Recorded, BadInputIsRefusedWithOneMessageAndExitCode3) {
  ASSERT_EQ(record().status, 0);
  const auto refused = [](const std::vector<std::string>& words, const std::string& said) {
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.status, 3) << words[1];
    EXPECT_THAT(outcome.err, HasSubstr(said));
  };
  const std::string nowhere = (folder.path() / "no/x.h5").string();
  refused({"fixture"}, "subcommand");
  refused({"fixture", "replay", nowhere}, nowhere + ": no such file");
  refused({"fixture", "replay", file, "--kernels", "cuda"}, "cuda");
  refused({"fixture", "diff", file, nowhere}, nowhere + ": no such file");
  refused({"fixture", "review", nowhere}, nowhere + ": no such file or folder");
  refused({"fixture", "review", file}, "is not a .received file");
  refused({"fixture", "record", target, nowhere, "--prompt-tokens", "1", "--reason", "x"}, "no such folder");
  refused({"fixture", "record", target, file, "--prompt-tokens", "1"}, "--reason");
  refused({"fixture", "record", nowhere, file, "--prompt-tokens", "1", "--reason", ""}, "--reason: is empty");
  refused({"fixture", "record", target, file, "--prompt-tokens", "999", "--reason", "x"}, "vocabulary");
  put(received, "half a fi");
  refused({"fixture", "review", folder.path().string()}, received + ": not an HDF5 file");
  files::copy_file(file, received, files::copy_options::overwrite_existing);
  refused({"fixture", "review", received, "--accept", ""}, "--accept: is empty");
  files::remove(received);
  for (const auto& [edit, said] : std::vector<std::pair<std::function<void(Fixture&)>, std::string>>{
           {[](Fixture& f) { f.draft = "hydra"; }, ": '/request' attribute 'draft': "},
           {[](Fixture& f) { f.target = "nowhere"; }, "nowhere"},
           {[](Fixture& f) { f.request.prompt = {160}; }, ": prompt token 160 lies outside"},
           {[](Fixture& f) { f.request.max_new_tokens = 1 << 16; }, "positions"}}) {
    ASSERT_EQ(record().status, 0);
    change(edit);
    refused({"fixture", "replay", file}, said);
  }
}

TEST_F(Recorded, OpensWithH5py) {
  if (std::system("python3 -c 'import h5py' 2>/dev/null") != 0) GTEST_SKIP() << "h5py is not installed";
  ASSERT_EQ(record({"--rows"}).status, 0);
  const std::string said = (folder.path() / "said").string();
  const std::string script = std::string(DRAFTPROOF_SOURCE_DIR) + "/fixtures/make/fixture.py";
  ASSERT_EQ(std::system(("python3 " + quoted(script) + " " + quoted(file) + " >" + quoted(said)).c_str()), 0);
  EXPECT_THAT(text_of(said), AllOf(HasSubstr("schema: draftproof.fixture/2\n"), HasSubstr("reason: a test\n"),
                                   HasSubstr("request/rule: rejection\n"), HasSubstr("run/tokens: int32 [8] "),
                                   HasSubstr("run/rows: float32 [8, 160] "), HasSubstr("request/seed: uint64 [] [3]")));
}

std::vector<std::string> shipped(const std::string& extension) {
  std::vector<std::string> list;
  for (const auto& entry : files::recursive_directory_iterator(fixture("snapshots"))) {
    if (entry.path().extension() == extension) list.push_back(entry.path().string());
  }
  return list;
}

// Canonical numerics: the same bits on every machine, and on every table of one.
TEST(ShippedFixtures, ReplayWithEqualBitsOnEveryTable) {
  const std::vector<std::string> fixtures = shipped(".h5");
  EXPECT_GE(fixtures.size(), 4U);
  for (const std::string& file : fixtures) EXPECT_EQ(read_fixture(file).numerics, "canonical") << file;
  for (const std::string& table : canonical_tables()) {
    std::vector<std::string> words{"fixture", "replay", "--threads", "1", "--kernels", table};
    words.insert(words.end(), fixtures.begin(), fixtures.end());
    const Outcome outcome = run_command(words);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err
                                 << "if that is meant: draftproof fixture review fixtures --accept REASON";
  }
}

TEST(ShippedFixtures, NoneIsPending) {
  EXPECT_EQ(run_command({"fixture", "review", fixture("")}).status, 0)
      << "see draftproof fixture review, then accept or remove what is pending";
}

}  // namespace
}  // namespace draftproof::test::fixture_test
