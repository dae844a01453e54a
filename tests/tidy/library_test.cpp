// SPDX-License-Identifier: MIT
// docs/library.md says which headers are meant for others; cmake/install.cmake installs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/folder.h"

namespace draftproof::library_test {
namespace {

/// What the first group of an expression matches, in the lines of a text.
std::set<std::string> found(const std::string& text, const std::string& expression) {
  const std::regex pattern(expression);
  std::set<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) all.insert(match[1]);
  }
  return all;
}

std::string read(const std::string& file) { return test::text_of(std::string(DRAFTPROOF_SOURCE_DIR) + "/" + file); }

TEST(Library, InstallsTheHeadersThatItsPageNames) {
  const std::string page = read("docs/library.md");
  const std::set<std::string> named = found(page, R"(^\| `([a-z_/]+\.h)` \|)");
  const std::string script = read("cmake/install.cmake");
  const std::size_t begin = script.find("set(public_headers\n");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(named, found(script.substr(begin, script.find(")\n", begin) - begin), R"(^ +([a-z_/]+\.h))"));
  EXPECT_GT(named.size(), 10U);
  for (const std::string& header : named) EXPECT_NE(read(header), "") << header;
  EXPECT_THAT(found("| `a/b.h` | x\n| `c.h`\n", R"(^\| `([a-z_/]+\.h)` \|)"), testing::ElementsAre("a/b.h"));
}

}  // namespace
}  // namespace draftproof::library_test
