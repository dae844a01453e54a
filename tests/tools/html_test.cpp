// SPDX-License-Identifier: MIT
// The pages that the command writes, of what it really found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/chromium.h"
#include "tests/report/page.h"
#include "tests/tools/command.h"

namespace draftproof::test::html_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// verify, its trace checked, the trace spoilt and checked, and a mutant and a control of the zoo.
std::vector<std::string> pages(const Folder& folder) {
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string target = fixture("models/tale-target");
  const auto write = [&](std::vector<std::string> words, const char* page) {
    words.insert(words.end(), {"--quiet", "--html", at(page)});
    return run_command(words).status;
  };
  EXPECT_EQ(write({"verify", target, "--draft", "dflash:" + fixture("models/tale-dflash"), "--max-new-tokens", "24",
                   "--rule", "rejection", "--temperature", "0.8", "--top-k", "32", "--seed", "7", "--effort", "full",
                   "--trace", at("trace.jsonl")},
                  "verify.html"),
            0);
  EXPECT_EQ(write({"trace", "check", at("trace.jsonl"), "--target", target}, "trace.html"), 0);
  std::string spoilt = text_of(at("trace.jsonl"));
  const std::size_t accepted = spoilt.rfind("\"accepted\":");
  EXPECT_NE(accepted, std::string::npos);
  if (accepted != std::string::npos) spoilt.replace(accepted + 11, 1, "9");
  put(at("spoilt.jsonl"), spoilt);
  EXPECT_EQ(write({"trace", "check", at("spoilt.jsonl")}, "spoilt.html"), 1);
  EXPECT_EQ(write({"zoo", "--only", "A01", "N01"}, "zoo.html"), 0);
  return {text_of(at("verify.html")), text_of(at("trace.html")), text_of(at("spoilt.html")), text_of(at("zoo.html"))};
}

TEST(PagesSlow, OfRealReportsAreValidAndFitTheScreen) {
  const Folder folder;
  const std::vector<std::string> list = pages(folder);
  for (const std::string& html : list) EXPECT_EQ(Page(html).fault, "");
  EXPECT_THAT(list[0], HasSubstr("<h1>PASS_EXACT</h1>"));
  EXPECT_THAT(list[0], HasSubstr("class=\"expected\"")) << "acceptance by depth";
  EXPECT_THAT(list[0], HasSubstr("class=\"bar\"")) << "accepted lengths";
  EXPECT_THAT(list[2], HasSubstr("<h1>BUG_PROVEN</h1>"));
  EXPECT_THAT(list[2], HasSubstr("class=\"failure\""));
  EXPECT_THAT(list[3], HasSubstr("class=\"matrix\""));

  const Chromium chromium;
  if (!chromium.is_there()) return;
  std::vector<Frame> frames;
  for (const std::string& html : list) {
    for (const int width : {1280, 390}) frames.push_back({html, width});
  }
  for (Measures m : chromium.measured(frames)) {
    EXPECT_LE(m["scroll"], m["width"]);
    EXPECT_EQ(m["cut"], 0);
    EXPECT_EQ(m["overlaps"], 0);
    EXPECT_EQ(m["outside"], 0);
    EXPECT_GE(m["smallest"], 10);
    EXPECT_EQ(m["requests"], 0);
  }
  for (const std::string& html : list) EXPECT_THAT(chromium.asked_for(html), IsEmpty());
}

}  // namespace
}  // namespace draftproof::test::html_test
