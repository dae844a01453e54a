// SPDX-License-Identifier: MIT
#include "ref/formats/whole_file.h"

#include <sys/wait.h>
#include <unistd.h>

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
  EXPECT_THAT(error_of([&] { replace_whole(file, [](const auto&) {}); }), HasSubstr(file.string() + ": cannot"));
  EXPECT_EQ(bytes_of_file(file), "old");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("x"));
}

TEST(WholeFile, LeftoversOfProcessesThatHaveEndedAreRemovedAndNothingElse) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const std::string ended = ".partial-" + std::to_string(child);
  const std::vector<std::string> kept = {"x",         "x.partial-",   "x.partial-" + std::to_string(getppid()),
                                         "x.partial", "x.partial-1z", "x.partial--1"};
  for (const std::string& name : kept) folder.write(name, "");
  for (const std::string& name : {"x" + ended, "y" + ended}) folder.write(name, "half");
  replace_whole(folder.path() / "x", [](const std::filesystem::path& partial) { put(partial, "new"); });
  EXPECT_FALSE(std::filesystem::exists(folder.path() / ("x" + ended)));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / ("y" + ended))) << "another file's";
  remove_leftovers(folder.path());
  EXPECT_THAT(names_in(folder.path()), testing::UnorderedElementsAreArray(kept));
}

TEST(WholeFile, NamesAPlaceThatCannotBeWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "full" / "folder");
  const auto writes = [](const std::filesystem::path& partial) { put(partial, "x"); };
  EXPECT_THAT(error_of([&] { replace_whole(folder.path() / "full", writes); }), HasSubstr("full: cannot be written"));
  EXPECT_THAT(error_of([&] { replace_whole(folder.path() / "no" / "x", writes); }), HasSubstr("x: cannot be written"));
}

}  // namespace
}  // namespace draftproof::whole_file_test
