// SPDX-License-Identifier: MIT
#include "ref/text/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <sstream>

#include "ref/base/utf8.h"
#include "ref/text/base64.h"
#include "tests/text/tokenizer_files.h"
#include "tests/text/unicode_categories.h"

namespace draftproof::normalizer_test {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

std::string applied(Normalizer::Step step, std::string_view text) {
  Normalizer normalizer;
  normalizer.add(std::move(step));
  MatchBudget budget(text.size());
  return normalizer.apply(text, budget);
}

TEST(Normalizer, RemovesTheMarksThatTokenizersRemovesAndLowersWhatItLowers) {
  const std::vector<bool> removed = test::characters_of("StripAccents");
  const std::vector<bool> unassigned = test::characters_of("Cn");
  std::map<char32_t, std::string> lowered;
  std::istringstream rows(test::unicode_categories().at("Lowercase").string());
  for (std::string row; rows >> row;) {
    std::istringstream made(row.substr(row.find('=') + 1));
    std::string& text = lowered[static_cast<char32_t>(std::stoul(row, nullptr, 16))];
    for (std::string part; std::getline(made, part, '+');) {
      utf8::append(text, static_cast<char32_t>(std::stoul(part, nullptr, 16)));
    }
  }
  for (char32_t character = 0; character < 0x110000; ++character) {
    if ((character >= 0xD800 && character <= 0xDFFF) || unassigned[character]) continue;
    std::string text;
    utf8::append(text, character);
    EXPECT_EQ(unicode::is_mark(character), removed[character]) << std::hex << static_cast<unsigned>(character);
    const auto known = lowered.find(character);
    EXPECT_EQ(unicode::lower_case(character), known == lowered.end() ? text : known->second)
        << std::hex << static_cast<unsigned>(character);
  }
}

TEST(Normalizer, KnowsTheStepsOfTokenizers) {
  using unicode::Form;
  EXPECT_EQ(applied(normalizers::form(Form::nfc), "e\u0301\uFB01"), "\u00E9\uFB01");
  EXPECT_EQ(applied(normalizers::form(Form::nfd), "\u00E9\uFB01"), "e\u0301\uFB01");
  EXPECT_EQ(applied(normalizers::form(Form::nfkc), "e\u0301\uFB01"), "\u00E9fi");
  EXPECT_EQ(applied(normalizers::form(Form::nfkd), "\u00E9\uFB01"), "e\u0301fi");
  EXPECT_EQ(applied(normalizers::lower_case(), "A\u0130\u03A3\u1E9E"), "ai\u0307\u03C3\u00DF");
  EXPECT_EQ(applied(normalizers::strip(true, true), " \u3000a b\n"), "a b");
  EXPECT_EQ(applied(normalizers::strip(true, false), "  a "), "a ");
  EXPECT_EQ(applied(normalizers::strip(false, true), "  "), "");
  EXPECT_EQ(applied(normalizers::strip_accents(), "e\u0301\u0302x"), "ex");
  EXPECT_EQ(applied(normalizers::nmt(), "a\x01\tb\u200B\u009Fc"), "a b c");
  EXPECT_EQ(applied(normalizers::prepend("_"), "a"), "_a");
  EXPECT_EQ(applied(normalizers::prepend("_"), ""), "");
  EXPECT_EQ(applied(normalizers::replace("aa", "b"), "aaaaa"), "bba");
  EXPECT_EQ(applied(normalizers::replace(Pattern(" {2,}", "f"), "_"), "a   b c"), "a_b c");
}

TEST(Normalizer, RefusesATextThatGrowsBeyondItsPositions) {
  const std::string text(1 << 20, 'a');
  EXPECT_THAT(test::error_of([&] { applied(normalizers::replace("a", std::string(4096, 'b')), text); }),
              HasSubstr("longer than 2 GiB"));
}

TEST(Normalizer, FollowsSentencePieceWithSpaces) {
  const auto rules = [](bool remove, bool add) {
    normalizers::SentencePiece made;
    made.remove_extra_spaces = remove;
    made.add_space = add;
    return normalizers::sentencepiece(made);
  };
  EXPECT_EQ(applied(rules(false, true), " a  b "), "\u2581\u2581a\u2581\u2581b\u2581");
  EXPECT_EQ(applied(rules(true, true), "  a  b "), "\u2581a\u2581b");
  EXPECT_EQ(applied(rules(true, true), "   "), "");
  EXPECT_EQ(applied(rules(false, false), "a b"), "a\u2581b");
  EXPECT_EQ(applied(rules(false, true), ""), "");
}

/// A map that replaces "a" by "x" and "ab" by "yz": units of the double array, then the replacements.
std::string small_map() {
  const auto unit = [](std::uint32_t offset, bool value, char label) {
    return offset << 10 | (value ? 0x100u : 0u) | static_cast<unsigned char>(label);
  };
  std::vector<std::uint32_t> units(0x400);
  // The children of a place are at its offset ^ their label, its value at the offset itself.
  units[0] = unit(0x100, false, '\0');
  units[0x100 ^ 'a'] = unit(0x100 ^ 'a' ^ 0x220, true, 'a');
  units[0x220] = 0x80000000u | 0;
  units[0x220 ^ 'b'] = unit(0x220 ^ 'b' ^ 0x300, true, 'b');
  units[0x300] = 0x80000000u | 2;
  std::string bytes;
  const auto number = [&](std::uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i);
  };
  number(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t one : units) number(one);
  return bytes + "x\0yz\0"s;
}

TEST(Charsmap, FindsTheShortestAndTheLongestBeginning) {
  const Charsmap map(small_map(), "FILE: field f");
  EXPECT_EQ(map.longest("abc")->length, 2u);
  EXPECT_EQ(map.longest("abc")->replacement, "yz");
  EXPECT_EQ(map.shortest("abc")->length, 1u);
  EXPECT_EQ(map.shortest("abc")->replacement, "x");
  EXPECT_FALSE(map.longest("ba").has_value());
  EXPECT_EQ(map.longest("a\u0301")->length, 1u);
  normalizers::SentencePiece rules;
  rules.map = std::make_shared<const Charsmap>(map);
  EXPECT_EQ(applied(normalizers::sentencepiece(rules), "abac"), "yzxc");
  EXPECT_EQ(applied(normalizers::replace_graphemes(map), "abac"), "xbxc");
}

TEST(Charsmap, RejectsWhatIsNoMap) {
  const auto error = [](const std::string& bytes) { return test::error_of([&] { Charsmap(bytes, "FILE: field f"); }); };
  for (const std::string& bytes : {""s, "abc"s, "\0\0\0\0"s, "\4\0\0\0abc"s, "\3\0\0\0abcx\0"s}) {
    EXPECT_THAT(error(bytes), HasSubstr("FILE: field f: ")) << bytes.size();
  }
  EXPECT_THAT(error("\4\0\0\0abcd"s), HasSubstr("zero byte"));
  EXPECT_THAT(error("\4\0\0\0abcd\xFF\0"s), HasSubstr("not UTF-8"));
}

// A walk through any units stays inside them, and what it finds is UTF-8 or an Error.
RC_GTEST_PROP(Charsmap, SurvivesAnyUnits, ()) {
  std::string bytes = small_map();
  for (int i = 0; i < 40; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(4, bytes.size() - 5);
    bytes[at] = static_cast<char>(*rc::gen::inRange(0, 256));
  }
  const Charsmap map(bytes, "FILE: field f");
  for (const char* text : {"abc", "aaaa", "b", "\u00E9a"}) {
    test::error_of([&] {
      const auto found = map.longest(text);
      if (found) RC_ASSERT(utf8::is_valid(found->replacement));
      if (found) RC_ASSERT(found->length <= std::string_view(text).size());
    });
  }
}

TEST(Base64, DecodesWhatTheStandardShows) {
  for (const auto& [text, bytes] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", ""}, {"Zg==", "f"}, {"Zm8=", "fo"}, {"Zm9v", "foo"}, {"Zm9vYg==", "foob"}, {"Zm9vYmFy", "foobar"}}) {
    EXPECT_EQ(base64_decoded(text), bytes);
  }
  for (const char* text : {"Z", "Zg=", "Zg===", "Z=g=", "Zm9v\n", "Zm9\xC3"}) {
    EXPECT_FALSE(base64_decoded(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace draftproof::normalizer_test
