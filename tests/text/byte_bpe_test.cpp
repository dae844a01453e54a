// SPDX-License-Identifier: MIT
#include "ref/text/byte_bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace draftproof::byte_bpe_test {
namespace {

struct Rule {
  Token left;
  Token right;
  Token result;
};

ByteBpe make(const std::vector<Rule>& rules) {
  ByteBpe bpe("FILE: field f");
  for (int byte = 0; byte < 256; ++byte) bpe.set_byte(static_cast<unsigned char>(byte), byte);
  for (const Rule& rule : rules) bpe.merges().add(rule.left, rule.right, rule.result);
  return bpe;
}

std::vector<Token> encode(const PieceModel& bpe, std::string_view piece) {
  std::vector<Token> tokens;
  PieceWork work;
  bpe.encode({&piece, 1}, work, tokens);
  return tokens;
}

/// The definition of the merges: while any rule applies, apply the first rule at its leftmost place.
std::vector<Token> merge_slowly(const std::vector<Rule>& rules, const std::string& piece) {
  std::vector<Token> tokens;
  for (const char byte : piece) tokens.push_back(static_cast<unsigned char>(byte));
  for (bool changed = true; changed;) {
    changed = false;
    for (const Rule& rule : rules) {
      for (std::size_t at = 0; at + 1 < tokens.size() && !changed; ++at) {
        if (tokens[at] != rule.left || tokens[at + 1] != rule.right) continue;
        tokens[at] = rule.result;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        changed = true;
      }
      if (changed) break;
    }
  }
  return tokens;
}

TEST(ByteBpe, MergesByRankThenFromTheLeft) {
  const ByteBpe bpe = make({{'b', 'c', 256}, {'a', 'b', 257}, {'a', 'a', 258}});
  EXPECT_EQ(encode(bpe, "abc"), (std::vector<Token>{'a', 256}));
  EXPECT_EQ(encode(bpe, "aaa"), (std::vector<Token>{258, 'a'}));
  EXPECT_EQ(encode(bpe, ""), std::vector<Token>{});
}

TEST(ByteBpe, RejectsARepeatedPair) {
  ByteBpe bpe = make({{'a', 'b', 256}});
  EXPECT_FALSE(bpe.merges().add('a', 'b', 257));
}

// Rules in an order that training can produce: each one joins tokens that already exist.
RC_GTEST_PROP(ByteBpe, EqualsTheDefinition, ()) {
  std::vector<Rule> rules;
  std::map<std::pair<Token, Token>, bool> seen;
  const int count = *rc::gen::inRange(0, 12);
  std::vector<Token> known = {'a', 'b', 'c'};
  for (int index = 0; index < count; ++index) {
    const Token left = *rc::gen::elementOf(known);
    const Token right = *rc::gen::elementOf(known);
    if (!seen.emplace(std::pair(left, right), true).second) continue;
    rules.push_back({left, right, 256 + index});
    known.push_back(256 + index);
  }
  const auto piece = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc")));
  RC_ASSERT(encode(make(rules), piece) == merge_slowly(rules, piece));
}

TEST(ByteBpe, EncodesALongPieceInNearLinearTime) {
  const ByteBpe bpe = make({{'a', 'a', 256}, {256, 256, 257}, {'a', 'b', 258}});
  std::string piece(1 << 20, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(encode(bpe, piece).size(), piece.size() / 4);
  // The square of 2^20 takes hours; two minutes leave room for a sanitizer on a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
}

}  // namespace
}  // namespace draftproof::byte_bpe_test
