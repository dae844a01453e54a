// SPDX-License-Identifier: MIT
#include "serve/api_keys.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace draftproof::serve::api_keys_test {
namespace {

/// Counts how often its letters are looked at.
class Watched {
 public:
  Watched(std::string text, int& looks) : text_(std::move(text)), looks_(&looks) {}
  std::size_t size() const { return text_.size(); }
  char operator[](std::size_t at) const {
    ++*looks_;
    return text_[at];
  }

 private:
  std::string text_;
  int* looks_;
};

TEST(ApiKeys, EveryByteOfEveryKeyIsComparedWhateverCame) {
  int looks = 0;
  const std::vector<Watched> known = {{"aaaaaaaa", looks}, {"aaaabbbb", looks}, {"bbbbbbbb", looks}};
  const std::pair<const char*, int> cases[] = {{"aaaaaaaa", 0},  {"aaaabbbb", 1},  {"bbbbbbbb", 2}, {"baaaaaaa", -1},
                                               {"aaaaaaab", -1}, {"cccccccc", -1}, {"aaaabbba", -1}};
  for (const auto& [given, place] : cases) {
    looks = 0;
    EXPECT_EQ(place_among(known, std::string(given)).value_or(-1), place) << given;
    EXPECT_EQ(looks, 3 * 8) << given;
  }
}

TEST(ApiKeys, AreFoundWholeOnly) {
  const ApiKeys keys({"secret", "other", std::string(1000, 'x')});
  EXPECT_EQ(keys.number_of("secret"), 0);
  EXPECT_EQ(keys.number_of("other"), 1);
  EXPECT_EQ(keys.number_of(std::string(1000, 'x')), 2);
  for (const char* const wrong : {"", "secre", "secrets", "Secret", "xother"}) {
    EXPECT_EQ(keys.number_of(wrong), std::nullopt) << wrong;
  }
  EXPECT_TRUE(ApiKeys({}).empty());
}

}  // namespace
}  // namespace draftproof::serve::api_keys_test
