// SPDX-License-Identifier: MIT
#include "serve/browser_rules.h"

#include <gtest/gtest.h>

#include "ref/base/error.h"

namespace draftproof::serve {
namespace {

TEST(BrowserRules, TheNamesOfThisMachineAreItsLoopbackAddressesAndLocalhost) {
  for (const char* const host : {"localhost", "LocalHost:8080", "localhost.:8080", "a.localhost", "127.0.0.1",
                                 "127.0.0.1:1", "127.9.9.9", "[::1]", "[::1]:8080"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* const host : {"", "example.com", "localhost.example.com", "127.0.0.1.example.com", "128.0.0.1",
                                 "notlocalhost", "[::2]:8080", "[", "0.0.0.0", "2130706433"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(BrowserRules, AnOriginIsTheSamePlaceWhenHostAndPortAre) {
  EXPECT_TRUE(is_same("http://localhost:8080", "LOCALHOST:8080"));
  EXPECT_TRUE(is_same("https://chat.example.com", "chat.example.com"));
  EXPECT_FALSE(is_same("http://localhost:8081", "localhost:8080"));
  EXPECT_FALSE(is_same("http://localhost", "localhost:8080"));
  EXPECT_FALSE(is_same("http://evil.example", "localhost"));
  EXPECT_FALSE(is_same("null", "null"));
  EXPECT_FALSE(is_same("null", ""));
}

TEST(BrowserRules, AnOriginIsGivenAsBrowsersSendIt) {
  EXPECT_NO_THROW(require_origins({"*", "https://example.org", "http://localhost:3000"}));
  for (const char* const origin : {"", "example.org", "https://", "https://example.org/", "https://Example.org"}) {
    EXPECT_THROW(require_origins({origin}), Error) << origin;
  }
}

}  // namespace
}  // namespace draftproof::serve
