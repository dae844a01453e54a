// SPDX-License-Identifier: MIT
// Heads that can be read in one way only, and those that cannot.
#include "serve/head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace draftproof::serve {
namespace {

using testing::HasSubstr;

const std::string line = "POST /v1/completions HTTP/1.1\r\n";
const std::string host = "Host: localhost:8080\r\n";

int status_of(const std::string& head) {
  EXPECT_EQ(head_size(head), head.size()) << head;
  const auto fault = fault_of_head(head);
  return fault ? fault->status : 200;
}
int with(const std::string& fields) { return status_of(line + host + fields + "\r\n"); }

TEST(Head, EndsWithItsFirstEmptyLineHoweverItComes) {
  const std::string head = line + host + "\r\n";
  const std::string ahead = head + "{}\r\n\r\n";
  for (std::size_t come = 0; come <= ahead.size(); ++come) {
    const std::string_view bytes = std::string_view(ahead).substr(0, come);
    const std::size_t expected = come < head.size() ? 0 : head.size();
    EXPECT_EQ(head_size(bytes), expected) << come;
    if (come > 0 && come <= head.size()) {
      EXPECT_EQ(head_size(bytes, come - 1), expected) << come;
    }
  }
  EXPECT_EQ(head_size("GET / HTTP/1.1\n\nGET"), 16U);
  EXPECT_EQ(head_size("GET / HTTP/1.1\n\r\nGET"), 17U);
}

TEST(Head, WhatClientsSendIsSound) {
  for (const std::string& fields :
       {std::string(), std::string("Content-Length: 12\r\n"), std::string("content-length:12 \t\r\n"),
        std::string("TRANSFER-ENCODING: Chunked\r\n"), std::string("X-Stainless-Lang: python\r\nAccept: */*\r\n"),
        std::string("Authorization: Bearer a b\tc\r\n"), std::string("X: \xC3\xA4\r\n"), std::string("X:\r\n"),
        std::string("!#$%&'*+-.^`|~: a:b\r\n"), "X: " + std::string(8000, 'a') + "\r\n"}) {
    EXPECT_EQ(with(fields), 200) << fields;
  }
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET /a%20b?c=d HTTP/1.1\r\n" + host + "\r\n"), 200);
}

TEST(Head, WhatCouldBeReadInTwoWaysIsRefused) {
  const std::string nul(1, '\0');
  for (const std::string& fields : {std::string("Content-Length : 12\r\n"),
                                    std::string("Content-Length\t: 12\r\n"),
                                    std::string(" Content-Length: 12\r\n"),
                                    std::string("X: a\r\n b\r\n"),
                                    std::string("X: a\r\n\tb\r\n"),
                                    nul + "Content-Length: 12\r\n",
                                    "X: a" + nul + "\r\n",
                                    std::string("Content_Length: 12\r\n"),
                                    std::string(": a\r\n"),
                                    std::string("X\r\n"),
                                    std::string("X: a\nContent-Length: 12\r\n"),
                                    std::string("X: a\rContent-Length: 12\r\n"),
                                    std::string("X(a): b\r\n"),
                                    std::string("\xC3\xA4: b\r\n"),
                                    std::string("X: \x7F\r\n"),
                                    std::string("Content-Length:\r\n"),
                                    std::string("Content-Length: +5\r\n"),
                                    std::string("Content-Length: 0x5\r\n"),
                                    std::string("Content-Length: 5,5\r\n"),
                                    std::string("Content-Length: 5 5\r\n"),
                                    std::string("Content-Length: %35\r\n"),
                                    std::string("Content-Length: 5\r\nContent-Length: 5\r\n"),
                                    std::string("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
                                    std::string("Transfer-Encoding:\r\n"),
                                    std::string("Transfer-Encoding: gzip, chunked\r\n"),
                                    std::string("Transfer-Encoding: xchunked\r\n"),
                                    std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                                    std::string("Host: elsewhere\r\n")}) {
    EXPECT_EQ(with(fields), 400) << fields;
  }
  for (const char* const head :
       {"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\n", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "GET /\r\nHost: a\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"}) {
    EXPECT_EQ(status_of(head), 400) << head;
  }
}

TEST(Head, ALineThatIsTooLongIsToldSo) {
  EXPECT_EQ(status_of("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n" + host + "\r\n"), 414);
  EXPECT_EQ(with("X: " + std::string(9000, 'a') + "\r\n"), 431);
  EXPECT_THAT(std::string(fault_of_head(line + host + "X : a\r\n\r\n")->why), HasSubstr("colon"));
}

}  // namespace
}  // namespace draftproof::serve
