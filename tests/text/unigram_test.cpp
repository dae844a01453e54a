// SPDX-License-Identifier: MIT
#include "ref/text/unigram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>

namespace draftproof::unigram_test {
namespace {

using ::testing::ElementsAre;

constexpr Token unknown_token = 99;

struct Entry {
  std::string text;
  double score;
};

Unigram make(const std::vector<Entry>& entries) {
  UnknownText unknown("FILE: field f");
  unknown.set_unknown(unknown_token, false);
  Unigram unigram(std::move(unknown));
  double smallest = 0;
  for (std::size_t token = 0; token < entries.size(); ++token) {
    unigram.add_entry(entries[token].text, static_cast<Token>(token), entries[token].score);
    smallest = std::min(smallest, entries[token].score);
  }
  unigram.set_smallest_score(smallest);
  return unigram;
}

std::vector<Token> encode(const PieceModel& model, std::string_view piece) {
  std::vector<Token> tokens;
  PieceWork work;
  model.encode({&piece, 1}, work, tokens);
  return tokens;
}

struct Division {
  double score = 0;
  std::vector<Token> tokens;
};

/// Every division of `text` into entries, and characters that are none, is tried.
void try_all(const std::vector<Entry>& entries, const std::string& text, const Division& before, Division& best) {
  if (text.empty()) {
    if (best.tokens.empty() || before.score > best.score) best = before;
    return;
  }
  double smallest = 0;
  bool is_entry = false;
  for (std::size_t token = 0; token < entries.size(); ++token) {
    smallest = std::min(smallest, entries[token].score);
    is_entry = is_entry || entries[token].text == text.substr(0, 1);
    if (!text.starts_with(entries[token].text)) continue;
    Division with = before;
    with.score += entries[token].score;
    with.tokens.push_back(static_cast<Token>(token));
    try_all(entries, text.substr(entries[token].text.size()), with, best);
  }
  if (is_entry) return;
  Division with = before;
  with.score += smallest - 10;
  with.tokens.push_back(unknown_token);
  try_all(entries, text.substr(1), with, best);
}

// Scores are different powers of two, so that sums are exact and no two divisions tie.
RC_GTEST_PROP(Unigram, FindsTheBestOfAllDivisions, ()) {
  const auto letters = rc::gen::elementOf(std::string("abc"));
  const auto short_text = rc::gen::resize(3, rc::gen::container<std::string>(letters));
  std::vector<Entry> entries;
  for (const std::string& text : *rc::gen::resize(12, rc::gen::container<std::vector<std::string>>(short_text))) {
    const bool known = std::ranges::find(entries, text, &Entry::text) != entries.end();
    if (text.empty() || known || entries.size() == 10) continue;
    entries.push_back({text, -static_cast<double>(1 << (3 * entries.size())) * *rc::gen::inRange(1, 3)});
  }
  const auto piece = *rc::gen::resize(8, rc::gen::container<std::string>(letters));
  Division best;
  try_all(entries, piece, {}, best);
  double found = 0;
  double smallest = 0;
  for (const Entry& entry : entries) smallest = std::min(smallest, entry.score);
  const auto tokens = encode(make(entries), piece);
  for (const Token token : tokens) found += token == unknown_token ? smallest - 10 : entries[token].score;
  RC_ASSERT(found == best.score);
  std::string text;
  for (std::size_t at = 0, i = 0; i < tokens.size(); ++i) {
    const std::string part = tokens[i] == unknown_token ? piece.substr(at, 1) : entries[tokens[i]].text;
    text += part;
    at += part.size();
  }
  RC_ASSERT(text == piece);
}

TEST(Unigram, OfEqualSumsTheLastEntryIsTheLongest) {
  EXPECT_THAT(encode(make({{"a", -1}, {"b", -1}, {"c", -1}, {"ab", -1}, {"bc", -1}}), "abc"), ElementsAre(0, 4));
  EXPECT_THAT(encode(make({{"a", -1}, {"b", -1}, {"ab", -2}}), "ab"), ElementsAre(2));
}

TEST(Unigram, EncodesALongPieceInLinearTime) {
  const Unigram unigram = make({{"a", -1}, {"aa", -1.5}, {"aaa", -4}});
  const std::string piece(1 << 20, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(encode(unigram, piece).size(), piece.size() / 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
}

}  // namespace
}  // namespace draftproof::unigram_test
