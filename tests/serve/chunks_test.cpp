// SPDX-License-Identifier: MIT
#include "serve/chunks.h"

#include <gtest/gtest.h>

#include <string>

namespace draftproof::serve {
namespace {

/// Taken in pieces of every size.
bool is_right(const std::string& body) {
  const bool whole = Chunks().take(body);
  for (std::size_t piece = 1; piece < 4; ++piece) {
    Chunks chunks;
    bool right = true;
    for (std::size_t at = 0; at < body.size() && right; at += piece) {
      right = chunks.take(std::string_view(body).substr(at, piece));
    }
    EXPECT_EQ(right, whole) << body;
  }
  return whole;
}

TEST(Chunks, AreRightWhereTheyCanBeReadInOneWayOnly) {
  for (const char* const body :
       {"2\r\n{}\r\n0\r\n\r\n", "a\r\n0123456789\r\n0A\r\n0123456789\r\n0\r\n\r\n", "0\r\n\r\n",
        "2;name=\"value\"\r\n{}\r\n0;x\r\n\r\n", "2\r\n\r\n\r\n000\r\n\r\n", "2\r\n{"}) {
    EXPECT_TRUE(is_right(body)) << body;
  }
  for (const char* const body :
       {"0x2\r\n{}\r\n0\r\n\r\n", "+2\r\n{}\r\n0\r\n\r\n", " 2\r\n{}\r\n0\r\n\r\n", "-1\r\n", "\r\n", ";\r\n",
        "2\n{}\r\n0\r\n\r\n", "2\r\n{}GET / HTTP/1.1\r\n", "2\r\n{}\n0\r\n\r\n", "2;a\nb\r\n{}\r\n", "2 \r\n{}\r\n",
        "2\r\n{}\r\n0\r\nX: a\r\n\r\n", "0\r\n\r\nGET", "FFFFFFFFFFFFFFFF2\r\n", "2\r{}"}) {
    EXPECT_FALSE(is_right(body)) << body;
  }
}

}  // namespace
}  // namespace draftproof::serve
