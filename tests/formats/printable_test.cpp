// SPDX-License-Identifier: MIT
#include "ref/formats/printable.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ref/base/utf8.h"

namespace draftproof::printable_test {
namespace {

TEST(Printable, LeavesPrintableTextUnchanged) {
  for (const char* text : {"", "model.gguf", "naïve 世界 😀", "it's \\x0a", "\u00A0"}) EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesControlBytesAndInvalidUtf8) {
  EXPECT_EQ(printable("a\nb\r\tc\x1b[31m\x7f"), "a\\x0ab\\x0d\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m"),
            "\\xc2\\x9b1m")
      << "a control character of two bytes";
  EXPECT_EQ(printable("a\xFF\xC3(\xE4\xB8"), "a\\xff\\xc3(\\xe4\\xb8") << "no character, a broken one, half of one";
}

TEST(Printable, ShortensLongTextInTheMiddleWithoutSplittingACharacter) {
  const std::string exact(120, 'x');
  EXPECT_EQ(printable(exact), exact);
  EXPECT_EQ(printable("/begin/" + std::string(10000, 'x') + "/end: no such file", 30),
            "/begin/xxxxxxxxxxxxx... such file");
  for (std::size_t bytes_max = 3; bytes_max < 40; ++bytes_max) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += "世a";
    const std::string cut = printable(text, bytes_max);
    EXPECT_TRUE(utf8::is_valid(cut));
    EXPECT_EQ(cut.find('\\'), std::string::npos) << cut << " holds a piece of a character";
  }
  EXPECT_EQ(printable(std::string(1000, '\x80'), 9), "\\x80\\x80\\x80\\x80\\x80\\x80...\\x80\\x80\\x80");
}

TEST(Printable, IsOneLineOfPrintableUtf8ForAnyInput) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += {static_cast<char>(i), static_cast<char>(i * 7), static_cast<char>(i ^ 0x55)};
  for (std::size_t from = 0; from < bytes.size(); ++from) {
    const std::string shown = printable(bytes.substr(from), 100);
    EXPECT_TRUE(utf8::is_valid(shown));
    EXPECT_TRUE(std::none_of(shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }));
    EXPECT_EQ(printable(shown, 1000), shown) << "what is printable already is not changed again";
  }
}

}  // namespace
}  // namespace draftproof::printable_test
