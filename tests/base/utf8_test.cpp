// SPDX-License-Identifier: MIT
#include "ref/base/utf8.h"

#include <gtest/gtest.h>

namespace draftproof::utf8_test {
namespace {

TEST(Utf8, RecognizesWellFormedText) {
  for (const char* good :
       {"", "a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "\xEE\x80\x80"}) {
    EXPECT_TRUE(utf8::is_valid(good)) << good;
  }
  for (const char* bad : {"\x80", "\xC0\xAF", "\xC1\x81", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xC3("}) {
    EXPECT_FALSE(utf8::is_valid(bad)) << bad;
  }
}

TEST(Utf8, WritesAndReadsEveryCharacter) {
  for (char32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string text;
    utf8::append(text, code_point);
    const utf8::Character read = utf8::step(text, 0);
    ASSERT_EQ(read.status, utf8::Status::character);
    ASSERT_EQ(read.length, text.size());
    ASSERT_EQ(read.code_point, code_point);
  }
}

TEST(Utf8, ReplacesMaximalSubparts) {
  EXPECT_EQ(utf8::replace_broken("a\xF0\x9F\x98z"), "a\uFFFDz");
  EXPECT_EQ(utf8::replace_broken("\xF0\x9F"), "\uFFFD");
  EXPECT_EQ(utf8::replace_broken("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(utf8::replace_broken("\xE2\x82\xE2\x82\xAC"), "\uFFFD\u20AC");
}

TEST(Utf8, HoldsBackOnlyWhatMoreBytesCanFinish) {
  std::string bytes = "ok\xFF\xE2\x82";
  EXPECT_EQ(utf8::take_finished(bytes), "ok\uFFFD");
  EXPECT_EQ(bytes, "\xE2\x82");
  bytes += "\xAC";
  EXPECT_EQ(utf8::take_finished(bytes), "\u20AC");
  EXPECT_EQ(bytes, "");
}

}  // namespace
}  // namespace draftproof::utf8_test
