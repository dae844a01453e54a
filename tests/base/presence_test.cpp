// SPDX-License-Identifier: MIT
#include "ref/base/presence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ref/base/error.h"
#include "tests/folder.h"

namespace draftproof::presence_test {
namespace {

namespace files = std::filesystem;

std::string refusal(const files::path& path) {
  try {
    is_present(path);
  } catch (const Error& wrong) {
    return wrong.what();
  }
  return "";
}

TEST(Presence, IsOfFilesFoldersAndLinksToThem) {
  const test::Folder folder;
  test::put(folder.path() / "x", "");
  files::create_symlink("x", folder.path() / "link");
  for (const char* name : {"x", "link", "."}) EXPECT_TRUE(is_present(folder.path() / name)) << name;
  for (const char* name : {"y", "no/y", "x/y", "link/y"}) EXPECT_FALSE(is_present(folder.path() / name)) << name;
}

TEST(Presence, IsNotDeniedForWhatCannotBeLookedAt) {
  const test::Folder folder;
  files::create_symlink(folder.path() / "nothing", folder.path() / "dangling");
  files::create_symlink("loop", folder.path() / "loop");
  EXPECT_THAT(refusal(folder.path() / "dangling"), testing::HasSubstr("dangling: is a link to something"));
  EXPECT_THAT(refusal(folder.path() / "loop"), testing::HasSubstr("loop: Too many levels"));
  EXPECT_THAT(refusal(folder.path() / std::string(300, 'x')), testing::HasSubstr("File name too long"));
}

}  // namespace
}  // namespace draftproof::presence_test
