// SPDX-License-Identifier: MIT
#include "ref/text/character_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>

#include "ref/base/utf8.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::character_bpe_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Entry {
  std::string text;
  double score;
};

/// Entry i is token i; the byte tokens follow, from 1000 on.
CharacterBpe by_score(const std::vector<Entry>& entries) {
  UnknownText unknown("FILE: field f");
  for (int byte = 0; byte < 256; ++byte) unknown.set_byte(static_cast<unsigned char>(byte), 1000 + byte);
  CharacterBpe bpe(std::move(unknown));
  std::vector<double> scores;
  for (const Entry& entry : entries) {
    bpe.add_entry(entry.text, static_cast<Token>(scores.size()));
    scores.push_back(entry.score);
  }
  bpe.set_scores(scores);
  return bpe;
}

std::vector<Token> encode(const PieceModel& model, std::string_view piece) {
  std::vector<Token> tokens;
  PieceWork work;
  model.encode({&piece, 1}, work, tokens);
  return tokens;
}

std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t at = 0; at < text.size(); at += list.back().size()) {
    list.push_back(text.substr(at, utf8::step(text, at).length));
  }
  return list;
}

/// The definition of merging by score: while two neighbors are an entry, join the two of the best score, leftmost.
std::vector<Token> merge_slowly(const std::vector<Entry>& entries, const std::string& piece) {
  const auto find = [&](const std::string& text) {
    const auto found = std::ranges::find(entries, text, &Entry::text);
    return found == entries.end() ? -1 : static_cast<int>(found - entries.begin());
  };
  std::vector<std::string> symbols = characters(piece);
  for (;;) {
    std::size_t best_at = symbols.size();
    double best = 0;
    for (std::size_t at = 0; at + 1 < symbols.size(); ++at) {
      const int entry = find(symbols[at] + symbols[at + 1]);
      if (entry < 0 || (best_at < symbols.size() && entries[entry].score <= best)) continue;
      best_at = at;
      best = entries[entry].score;
    }
    if (best_at == symbols.size()) break;
    symbols[best_at] += symbols[best_at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
  std::vector<Token> tokens;
  for (const std::string& symbol : symbols) {
    if (const int entry = find(symbol); entry >= 0) {
      tokens.push_back(entry);
    } else {
      for (const char byte : symbol) tokens.push_back(1000 + static_cast<unsigned char>(byte));
    }
  }
  return tokens;
}

// Few characters, few scores and many entries: ties, entries that no pair reaches, characters that are no entry, and
// places where the text is cut.
RC_GTEST_PROP(CharacterBpe, EqualsTheDefinitionOfMergingByScore, ()) {
  const auto character = rc::gen::elementOf(std::vector<std::string>{"a", "b", "\u00E9", "\u2581", "\U0001F600"});
  const auto text = rc::gen::map(rc::gen::container<std::vector<std::string>>(character), [](const auto& drawn) {
    std::string joined;
    for (const std::string& one : drawn) joined += one;
    return joined;
  });
  const auto short_text = rc::gen::map(rc::gen::resize(4, text), [](std::string one) { return one; });
  std::vector<Entry> entries;
  for (const std::string& drawn : *rc::gen::container<std::vector<std::string>>(short_text)) {
    const bool known = std::ranges::find(entries, drawn, &Entry::text) != entries.end();
    if (!drawn.empty() && !known) entries.push_back({drawn, static_cast<double>(*rc::gen::inRange(-3, 0))});
  }
  const std::string piece = *text;
  RC_ASSERT(encode(by_score(entries), piece) == merge_slowly(entries, piece));
}

TEST(CharacterBpe, JoinsCharactersThatAreNoEntries) {
  EXPECT_THAT(encode(by_score({{"xy", -1}}), "xyx"), ElementsAre(0, 1000 + 'x'));
}

TEST(CharacterBpe, EncodesUnknownCharactersByTheirBytesOrTheUnknownToken) {
  UnknownText unknown("FILE: field f");
  for (const int byte : {0xC3, 0xA9}) unknown.set_byte(static_cast<unsigned char>(byte), byte);
  UnknownText fused = unknown;
  CharacterBpe strict(unknown);
  strict.add_entry("a", 1);
  EXPECT_THAT(encode(strict, "a\u00E9"), ElementsAre(1, 0xC3, 0xA9));
  EXPECT_THAT(test::error_of([&] { encode(strict, "a\u4E16"); }),
              HasSubstr("FILE: field f: has no entry for '\u4E16'"));
  unknown.set_unknown(0, false);
  CharacterBpe single(unknown);
  single.add_entry("a", 1);
  EXPECT_THAT(encode(single, "\u4E16\u4E16a\u4E16"), ElementsAre(0, 0, 1, 0));
  fused.set_unknown(0, true);
  CharacterBpe together(fused);
  together.add_entry("a", 1);
  EXPECT_THAT(encode(together, "\u4E16\u4E16a\u4E16\u00E9\u4E16"), ElementsAre(0, 1, 0, 0xC3, 0xA9));
}

TEST(CharacterBpe, EncodesALongPieceInNearLinearTime) {
  const CharacterBpe bpe = by_score({{"a", -9}, {"aa", -1}, {"aaaa", -2}, {"aaaaaaaa", -3}});
  const std::string piece(1 << 20, 'a');
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(encode(bpe, piece).size(), piece.size() / 8);
  // The square of 2^20 takes hours; two minutes leave room for a sanitizer on a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
}

}  // namespace
}  // namespace draftproof::character_bpe_test
