// SPDX-License-Identifier: MIT
#include "ref/formats/whole_file.h"

#include <sys/wait.h>

#include <csignal>

#include "tests/formats/files.h"

namespace draftproof::whole_file_test {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

void put(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST(WholeFile, IsTheOldFileUntilTheNewOneIsComplete) {
  const TemporaryFolder folder;
  const auto file = folder.write("x", "old");
  replace_whole(file, [&](const std::filesystem::path& partial) {
    put(partial, "n");
    EXPECT_EQ(bytes_of_file(file), "old");
    put(partial, "new");
    EXPECT_EQ(partial.parent_path(), file.parent_path()) << "a rename is atomic within one file system";
  });
  EXPECT_EQ(bytes_of_file(file), "new");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("x"));
}

TEST(WholeFile, IsUnchangedWhenWritingFails) {
  const TemporaryFolder folder;
  const auto file = folder.write("x", "old");
  const auto fails = [](const std::filesystem::path& partial) {
    put(partial, "half");
    throw Error("the disk is full");
  };
  EXPECT_EQ(error_of([&] { replace_whole(file, fails); }), "the disk is full");
  EXPECT_EQ(bytes_of_file(file), "old");
  const auto removes = [](const std::filesystem::path& partial) { std::filesystem::remove(partial); };
  EXPECT_THAT(error_of([&] { replace_whole(file, removes); }), HasSubstr(file.string() + ": cannot"));
  EXPECT_EQ(bytes_of_file(file), "old");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("x"));
}

TEST(WholeFile, NamesAPlaceThatCannotBeWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "full" / "folder");
  const auto writes = [](const std::filesystem::path& partial) { put(partial, "x"); };
  EXPECT_THAT(error_of([&] { replace_whole(folder.path() / "full", writes); }), HasSubstr("full: cannot be written"));
  EXPECT_THAT(error_of([&] { replace_whole(folder.path() / "no" / "x", writes); }), HasSubstr("x: cannot be written"));
}

TEST(WholeFile, OfTwoWritersIsTheLastToFinishAndEachHasItsOwn) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "x";
  PartialFile first(file);
  PartialFile second(file);
  put(first.path(), "first");
  put(second.path(), "second");
  second.take_place();
  EXPECT_EQ(bytes_of_file(file), "second");
  first.take_place();
  EXPECT_EQ(bytes_of_file(file), "first");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("x"));
}

TEST(WholeFile, TakesAwayWhatAKilledWriterLeftAndNothingElse) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "x";
  const pid_t child = fork();
  if (child == 0) {
    const PartialFile killed(file);
    put(killed.path(), "half");
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(names_in(folder.path()).size(), 1U) << "what was killed left its file";
  const std::vector<std::string> never = {"x.partial-notes", "x.partial", "x.partial-", "x.partial--1", "x.partial-1z"};
  for (const std::string& name : never) folder.write(name, "");
  for (const char* of_another : {"y.partial-1-1", "xx.partial-1"}) folder.write(of_another, "half");
  const PartialFile living(file);
  replace_whole(file, [](const std::filesystem::path& partial) { put(partial, "new"); });
  EXPECT_EQ(names_in(folder.path()).size(), never.size() + 4) << "two others, the file, and the one being written";
  EXPECT_TRUE(std::filesystem::exists(living.path()));
  remove_leftovers(folder.path());
  std::vector<std::string> kept = never;
  kept.insert(kept.end(), {"x", living.path().filename().string()});
  EXPECT_THAT(names_in(folder.path()), testing::UnorderedElementsAreArray(kept));
}

}  // namespace
}  // namespace draftproof::whole_file_test
