// SPDX-License-Identifier: MIT
#include "ref/formats/whole_file.h"

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

TEST(WholeFile, NamesAPlaceThatCannotBeWritten) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "full" / "folder");
  const auto writes = [](const std::filesystem::path& partial) { put(partial, "x"); };
  EXPECT_THAT(error_of([&] { replace_whole(folder.path() / "full", writes); }), HasSubstr("full: cannot be written"));
  EXPECT_THAT(error_of([&] { replace_whole(folder.path() / "no" / "x", writes); }), HasSubstr("x: cannot be written"));
}

}  // namespace
}  // namespace draftproof::whole_file_test
