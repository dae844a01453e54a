// SPDX-License-Identifier: MIT
// Stop strings against a search of the whole text, for every division of the text into pieces.
#include "ref/text/stop_strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <tuple>

#include "ref/base/utf8.h"
#include "tests/text/tokenizer_files.h"

namespace draftproof::stop_strings_test {
namespace {

using Strings = std::vector<std::string>;

/// Searches the whole text for every string: the first end wins, then the first begin, then the first string.
std::optional<StopMatch> naive_match(const std::string& text, const Strings& strings) {
  std::optional<StopMatch> best;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::size_t begin = text.find(strings[i]);
    if (begin == std::string::npos) continue;
    const StopMatch match{i, begin, begin + strings[i].size()};
    const auto order = [](const StopMatch& m) { return std::tuple(m.end, m.begin, m.string); };
    if (!best || order(match) < order(*best)) best = match;
  }
  return best;
}

/// The length of the longest end of the text that begins a stop string and is shorter than it.
std::size_t naive_begun(const std::string& text, const Strings& strings) {
  std::size_t longest = 0;
  for (const std::string& string : strings) {
    for (std::size_t length = 1; length < string.size() && length <= text.size(); ++length) {
      if (text.ends_with(string.substr(0, length))) longest = std::max(longest, length);
    }
  }
  return longest;
}

std::string expected_text(const std::string& bytes, const Strings& strings) {
  const auto match = naive_match(bytes, strings);
  return utf8::replace_broken(match ? bytes.substr(0, match->begin) : bytes);
}

/// Cuts behind byte i of the text where bit i of `cuts` is set.
Strings divided(const std::string& text, unsigned cuts) {
  Strings pieces(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    pieces.back() += text[i];
    if ((cuts >> i & 1) != 0) pieces.emplace_back();
  }
  return pieces;
}

/// Returns a message when the text, streamed in these pieces, is not what the search of the whole gives, or when a
/// piece is not UTF-8, comes too early or is held back too long.
std::string fault_of(const Strings& pieces, const StopStrings& stops) {
  const Strings& strings = stops.strings();
  StoppedText stream(stops);
  std::string read;
  std::string streamed;
  for (const std::string& piece : pieces) {
    const std::string text = stream.push(piece);
    if (!utf8::is_valid(text)) return "a piece is not UTF-8";
    read += piece;
    streamed += text;
    const auto match = naive_match(read, strings);
    if (stream.match() != match) return "another match after " + read;
    const std::string expected = expected_text(read, strings);
    if (!expected.starts_with(streamed)) return "too early after " + read;
    if (match && streamed != expected) return "a stop string holds text back: " + read;
    if (match) continue;
    const std::string certain = read.substr(0, read.size() - naive_begun(read, strings));
    const std::string min = utf8::replace_broken(certain);
    if (!min.starts_with(streamed)) return "too early before a stop string: " + read;
    std::string finished = certain;
    if (!streamed.starts_with(utf8::take_finished(finished))) return "held back: " + read;
  }
  streamed += stream.finish();
  if (streamed != expected_text(read, strings)) return "the whole text is " + streamed;
  return "";
}

std::string fault_of_all_divisions(const std::string& text, const StopStrings& stops) {
  for (unsigned cuts = 0; cuts < 1U << (text.size() - 1); ++cuts) {
    if (const std::string fault = fault_of(divided(text, cuts), stops); !fault.empty()) {
      return testing::PrintToString(divided(text, cuts)) + ": " + fault;
    }
  }
  return "";
}

/// All words over an alphabet of at most this length.
Strings words(const std::string& alphabet, std::size_t longest) {
  Strings list = {""};
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].size() == longest) break;
    for (const char letter : alphabet) list.push_back(list[i] + letter);
  }
  list.erase(list.begin());
  return list;
}

TEST(StopStrings, EndEveryShortTextInEveryDivision) {
  const Strings stops = words("ab", 3);
  const Strings texts = words("ab", 6);
  long matched = 0;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    for (std::size_t k = i; k < stops.size(); ++k) {
      const StopStrings both(i == k ? Strings{stops[i]} : Strings{stops[i], stops[k]});
      for (const std::string& text : texts) {
        ASSERT_EQ(fault_of_all_divisions(text, both), "") << stops[i] << " " << stops[k];
        matched += naive_match(text, both.strings()).has_value();
      }
    }
  }
  EXPECT_GT(matched, 5000);
}

TEST(StopStrings, EndTheTextAtTheFirstMatchAlthoughAnEarlierBeginningFails) {
  const StopStrings stops({"aab"});
  EXPECT_EQ(expected_text("aaab", stops.strings()), "a");
  EXPECT_EQ(fault_of_all_divisions("aaabaab", stops), "");
  const StopStrings period({"abab", "ababaca"});
  EXPECT_EQ(fault_of_all_divisions("abaababaca", period), "");
}

TEST(StopStrings, TheFirstToEndWinsAndOfThoseTheLongest) {
  struct Row {
    Strings strings;
    std::string text;
    std::string expected;
    std::size_t string;
  };
  const Row rows[] = {
      {{"abc", "ab"}, "xabcd", "x", 1},      // the shorter begins the longer
      {{"bc", "abc"}, "xabcd", "x", 1},      // both end together
      {{"abcd", "bc"}, "xabcd", "xa", 1},    // one inside the other: in every division, also in one piece
      {{"cd", "ab"}, "xabcd", "x", 1},       // their order does not matter
      {{"q", "ab", "ab"}, "xabcd", "x", 1},  // twice the same
  };
  for (const Row& row : rows) {
    const StopStrings stops(row.strings);
    StopSearch search(stops);
    EXPECT_LT(search.read(row.text), row.text.size());
    ASSERT_TRUE(search.match());
    EXPECT_EQ(row.text.substr(0, search.match()->begin), row.expected);
    EXPECT_EQ(search.match()->string, row.string);
    EXPECT_EQ(fault_of_all_divisions(row.text, stops), "");
    EXPECT_EQ(search.read("ab"), 0U) << "nothing follows";
  }
}

TEST(StopStrings, MayBeginAndEndInsideCharacters) {
  EXPECT_EQ(fault_of_all_divisions("x世界y", StopStrings({"界"})), "");
  EXPECT_EQ(fault_of_all_divisions("é\n\né", StopStrings({"\n\n", "é\n\nz"})), "");
  // An unfinished character before a stop string, and before what only begins one.
  EXPECT_EQ(fault_of_all_divisions("\xE4\xB8"
                                   "END",
                                   StopStrings({"END"})),
            "");
  EXPECT_EQ(fault_of_all_divisions("\xE4\xB8"
                                   "ENE\xE4\xB8\x96",
                                   StopStrings({"END"})),
            "");
  // Bytes that are not UTF-8 by themselves.
  EXPECT_EQ(fault_of_all_divisions("a\xE4\xB8\x96z", StopStrings({"\xB8\x97", "\x96z"})), "");
  EXPECT_EQ(expected_text("a\xE4\xB8\x96z", {"\x96z"}), "a\uFFFD");
  EXPECT_EQ(fault_of_all_divisions(std::string("a\0b\xFF", 4), StopStrings({std::string("\0b\xFF", 3)})), "");
}

TEST(StopStrings, ReleaseACharacterThatBreaksOffBeforeWhatCouldBecomeOne) {
  const StopStrings stops({"END"});
  StoppedText stream(stops);
  EXPECT_EQ(stream.push("a\xE4\xB8"), "a");
  EXPECT_EQ(stream.push("E"), "\uFFFD");
  EXPECT_EQ(stream.push("N"), "");
  EXPECT_EQ(stream.finish(), "EN");
}

RC_GTEST_PROP(StopStringsProperties, StreamedTextEndsWhereASearchOfTheWholeTextSays, ()) {
  // Few different bytes, so that strings occur; among them parts of characters of two and three bytes.
  const auto byte = rc::gen::element('a', 'b', '\xC3', '\xA9', '\xE2', '\x82', '\xAC', '\xFF');
  const auto some_bytes = rc::gen::resize(5, rc::gen::nonEmpty(rc::gen::container<std::string>(byte)));
  const StopStrings stops(*rc::gen::resize(6, rc::gen::container<Strings>(some_bytes)));
  const auto pieces = *rc::gen::container<Strings>(
      rc::gen::oneOf(some_bytes, rc::gen::resize(3, rc::gen::container<std::string>(byte))));
  RC_ASSERT(fault_of(pieces, stops) == "");
}

RC_GTEST_PROP(StopStringsProperties, TokensEndAtTheFirstOccurrenceInTheDecodedText, ()) {
  static const Tokenizer tokenizer = Tokenizer::load(test::fixtures() / "external" / "tokenizers" / "llama3");
  const auto token =
      rc::gen::oneOf(rc::gen::inRange<Token>(0, 256), rc::gen::inRange<Token>(0, tokenizer.vocabulary()));
  const auto tokens = *rc::gen::container<std::vector<Token>>(token);
  const std::string whole = tokenizer.decode(tokens);
  RC_PRE(!whole.empty());
  const auto begin = *rc::gen::inRange<std::size_t>(0, whole.size());
  const std::string string = whole.substr(begin, *rc::gen::inRange<std::size_t>(1, 8));
  RC_PRE(utf8::is_valid(string) && string.find("\uFFFD") == std::string::npos);
  const StopStrings stops({string});
  TextStream stream(tokenizer, stops);
  std::string joined;
  for (const Token one : tokens) joined += stream.push(one);
  RC_ASSERT(stream.match());
  RC_ASSERT(joined == whole.substr(0, whole.find(string)));
  RC_ASSERT(stream.finish() == "");
}

TEST(StopStrings, AreRefusedWhenEmptyOrTooLong) {
  EXPECT_EQ(test::error_of([] {
              StopStrings({"a", ""});
            }),
            "a stop string is empty; every text would end before its first token");
  const std::string half(StopStrings::bytes_max / 2, 'a');
  EXPECT_EQ(test::error_of([&] { StopStrings({half, half}); }), "");
  EXPECT_EQ(test::error_of([&] {
              StopStrings({half, half + "b"});
            }),
            "the stop strings have 16385 bytes together; there may be 16384");
}

}  // namespace
}  // namespace draftproof::stop_strings_test
