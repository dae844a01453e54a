// SPDX-License-Identifier: MIT
#include "oracle/report/markup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/base/utf8.h"

namespace draftproof::markup_test {
namespace {

TEST(Escaped, KeepsTextAndWritesOutOtherBytes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"plain text, Größe, 日本語, 😀", "plain text, Größe, 日本語, 😀"},
      {"a\tb\nc", "a\tb\nc"},
      {"<a href=\"x\">'&amp;'</a>", "&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;&#39;&lt;/a&gt;"},
      {std::string("\0\x01\r\x1b\x7f", 5), "\\x00\\x01\\x0d\\x1b\\x7f"},
      {"\u0085\u00A0\u00AD", "\\u{85}\\u{a0}\\u{ad}"},
      {"\u200B\u202E\u2028\uFEFF\uE000", "\\u{200b}\\u{202e}\\u{2028}\\u{feff}\\u{e000}"},
      {"\xF0\x9F\xBF\xBF\xF3\xA0\x80\x81", "\\u{1ffff}\\u{e0001}"},
      {"a\xff\xfe z\xc3", "a\\xff\\xfe z\\xc3"},
      {"\xe2\x82", "\\xe2\\x82"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(escaped(text), wanted);
}

TEST(Escaped, IsSafeForAnyThreeBytes) {
  for (int a = 0; a < 256; a += 1) {
    for (int b = 0; b < 256; b += 1) {
      for (const int c : {0x00, 0x22, 0x26, 0x3c, 0x41, 0x80, 0xa0, 0xbf, 0xc2, 0xe2, 0xff}) {
        const std::string text = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)};
        const std::string safe = escaped(text);
        ASSERT_TRUE(utf8::is_valid(safe)) << a << " " << b << " " << c;
        ASSERT_EQ(safe.find_first_of("<>\"'"), std::string::npos) << a << " " << b << " " << c;
      }
    }
  }
}

TEST(WithMarks, MarksOnlySpacesThatCouldBeOverlooked) {
  const auto mark = [](const std::string& shape) { return "<span class=\"mark\">" + shape + "</span>"; };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"one two", "one two"},
      {" one", mark("␣") + "one"},
      {"one ", "one" + mark("␣")},
      {"a  b", "a" + mark("␣") + mark("␣") + "b"},
      {"a \nb", "a" + mark("␣") + mark("⏎") + "\nb"},
      {"a\tb", "a" + mark("⇥") + "b"},
      {" ", mark("␣")},
      {"\n", mark("⏎") + "\n"},
      {"<\x01", "&lt;" + mark("\\x01")},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(with_marks(text), wanted);
}

}  // namespace
}  // namespace draftproof::markup_test
