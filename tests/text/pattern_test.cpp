// SPDX-License-Identifier: MIT
#include "ref/text/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ref/base/utf8.h"
#include "ref/text/pattern_syntax.h"
#include "ref/text/pre_tokenizer.h"
#include "ref/text/unicode.h"
#include "tests/text/tokenizer_files.h"
#include "tests/text/unicode_categories.h"

namespace draftproof::pattern_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> split(const std::string& expression, std::string_view text) {
  const Pattern pattern(expression, "FILE: field f");
  MatchBudget budget(text.size());
  std::vector<PatternPart> parts;
  pattern.split(text, budget, parts);
  std::vector<std::string> pieces;
  for (const PatternPart& part : parts) pieces.emplace_back(part.text);
  return pieces;
}

TEST(Pattern, KeepsMatchesAndTheTextBetween) {
  EXPECT_THAT(split("[0-9]+", "12ab3"), ElementsAre("12", "ab", "3"));
  EXPECT_THAT(split("x", "ab"), ElementsAre("ab"));
  EXPECT_THAT(split("x", ""), ElementsAre());
  EXPECT_THAT(split(gpt2_pattern, "it's  12"), ElementsAre("it", "'s", " ", " 12"));
}

// U+180E is a space for \s of PCRE2 but not in Unicode since 6.3; U+0085 is one in both.
TEST(Pattern, SpaceMeansUnicodeWhiteSpace) {
  EXPECT_THAT(split(R"(\s+)", "a\u180E\u0085\u2003b"), ElementsAre("a\u180E", "\u0085\u2003", "b"));
  EXPECT_THAT(split(R"([^\s]+)", "a\u180E b"), ElementsAre("a\u180E", " ", "b"));
  EXPECT_THAT(split(R"(\S+)", "a\u180E b"), ElementsAre("a\u180E", " ", "b"));
}

// All characters, one after another: the matches of a property are the ranges that `tokenizers` finds. Those that are
// assigned later may be known to PCRE2 already.
TEST(Pattern, EveryCharacterHasTheCategoryThatHuggingFacesTokenizersGiveIt) {
  const std::vector<bool> unassigned = test::characters_of("Cn");
  const std::string text = test::every_character();
  for (const std::string& name : test::unicode_categories().fields()) {
    if (name == "StripAccents" || name == "Word" || name == "Lowercase") continue;
    const std::vector<bool> theirs = test::characters_of(name);
    const std::string expression =
        name == "Punctuation" ? R"([!-/:-@\[-`{-~)" + unicode::old_punctuation() + "]+" : "\\p{" + name + "}+";
    const Pattern pattern(expression, "FILE: field f");
    MatchBudget budget(text.size());
    std::vector<PatternPart> parts;
    pattern.split(text, budget, parts);
    int wrong = 0;
    for (const PatternPart& part : parts) {
      for (std::size_t at = 0; at < part.text.size();) {
        const utf8::Character character = utf8::step(part.text, at);
        const bool is_right = part.matches == theirs[character.code_point] || unassigned[character.code_point];
        if (!is_right && ++wrong < 5) {
          ADD_FAILURE() << name << ": " << std::hex << static_cast<unsigned>(character.code_point);
        }
        at += character.length;
      }
    }
  }
}

// U+1FAAD and U+1C89 are newer, U+10A0 is put in the place of the second, and so is U+10137 in that of the first.
TEST(Pattern, NewerCharactersThatItNamesMatchThemselvesAndNothingElse) {
  EXPECT_THAT(split(quote_for_pattern("\U0001FAAD"), "a\U0001FAAD\U0001FAAC\U00010137"),
              ElementsAre("a", "\U0001FAAD", "\U0001FAAC\U00010137"));
  EXPECT_THAT(split(R"([\x{1F900}-\x{1FAC5}]+)", "\U00010137\U0001FAAD"), ElementsAre("\U00010137", "\U0001FAAD"));
  EXPECT_THAT(split(R"([\x{10A0}-\x{10C5}]+)", "\u10A0\u1C89"), ElementsAre("\u10A0", "\u1C89"));
  EXPECT_THAT(split(R"([a\x{10137}-]+)", "\U00010137\U0001FAAD"), ElementsAre("\U00010137", "\U0001FAAD"));
  EXPECT_THAT(split(R"([一-龥]|\p{So}+)", "\U0001FAAD\u4E00"), ElementsAre("\U0001FAAD", "\u4E00"));
}

TEST(Unicode, WordsHaveTheCharactersThatTokenizersFindsInThem) {
  const std::vector<bool> word = test::characters_of("Word");
  const std::vector<bool> unassigned = test::characters_of("Cn");
  for (char32_t character = 0; character < 0x110000; ++character) {
    if ((character >= 0xD800 && character <= 0xDFFF) || unassigned[character]) continue;
    EXPECT_EQ(unicode::is_word(character), word[character]) << std::hex << static_cast<unsigned>(character);
  }
}

TEST(Pattern, FoldsCaseAsUnicodeDoes) {
  EXPECT_THAT(split("(?i:'s|'ll)", "A'S'\u017F'LLs"), ElementsAre("A", "'S", "'\u017F", "'LL", "s"));
}

TEST(Pattern, SupportsPossessiveAndCountedRepeats) {
  EXPECT_THAT(split("[0-9]{1,3}", "12345x"), ElementsAre("123", "45", "x"));
  EXPECT_THAT(split("a++b?+", "aabab"), ElementsAre("aab", "ab"));
  EXPECT_THAT(split("a+?", "aa"), ElementsAre("a", "a"));
}

TEST(PatternSyntax, TranslatesConstructsThatDiffer) {
  EXPECT_EQ(translate_pattern(R"(\s\S[^\s\d]\x{41}\u00e9)", ""),
            R"(\p{White_Space}\P{White_Space}[^\p{White_Space}\p{Nd}]\x{41}\x{00e9})");
  const std::string same = R"((?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}++|\p{N}{1,3}|(?!a)(?<=b)(?>c)\.\[\-]é{2})";
  EXPECT_EQ(translate_pattern(same, ""), same);
}

TEST(PatternSyntax, RejectsUnknownConstructsByName) {
  const std::pair<const char*, const char*> refused[] = {
      {"^a", "a line anchor"},
      {"a$", "a line anchor"},
      {R"(\w+)", "an unknown escape"},
      {R"(\h)", "an unknown escape"},
      {R"(\v)", "an unknown escape"},
      {R"(\1)", "an unknown escape"},
      {R"(\b)", "an unknown escape"},
      {"a\\", "an unknown escape"},
      {"[a[b]]", "a class inside"},
      {"[a&&b]", "an intersection"},
      {"[[:alpha:]]", "a class inside"},
      {"[]a]", "an empty character class"},
      {"[a", "without end"},
      {"(?m:a)", "a group of an unknown kind"},
      {"(?<name>a)", "a group of an unknown kind"},
      {"(*ACCEPT)", "a group of an unknown kind"},
      {R"(\p{Greek})", "neither a general category"},
      {R"(\p{^L})", "neither a general category"},
      {R"(\pL)", "a property without braces"},
      {R"(\xE9)", "without braces"},
      {R"(\x{zz})", "a malformed escape"},
      {R"(\u12)", "an unfinished escape"},
      {"a{,3}", "a brace"},
      {"a{2}?", "after {n}"},
      {"a{2,3}+", "after a counted repeat"},
      {"a**", "nothing to repeat"},
      {"*a", "nothing to repeat"},
      {"a|+", "nothing to repeat"},
  };
  for (const auto& [expression, what] : refused) {
    const std::string error = test::error_of([text = expression] { Pattern(text, "FILE: field f"); });
    EXPECT_THAT(error, StartsWith("FILE: field f: ")) << expression;
    EXPECT_THAT(error, HasSubstr(what)) << expression;
  }
}

TEST(Pattern, RejectsInvalidExpressionsAndEmptyMatches) {
  for (const char* expression : {"(a", "a)", "[z-a]", "(?<=a+)b", "a{99999}", "a*", "", "(?=a)", "a|", "\xFF"}) {
    EXPECT_THAT(test::error_of([&] { Pattern(expression, "FILE: field f"); }), StartsWith("FILE: field f: "))
        << expression;
  }
  EXPECT_THAT(test::error_of([&] { Pattern(std::string(1 << 16, 'a'), "FILE: field f"); }), HasSubstr("32 KiB"));
}

TEST(Pattern, StopsExcessiveBacktracking) {
  const std::string text = std::string(20000, 'a') + "cb";  // without the b the matcher would fail at once
  for (const char* expression : {"(?:a+)+b", "(?:a|a)+b", "a*a*a*a*a*a*b", "(?:a{1,20}){1,20}(?:a{1,20}){1,20}b"}) {
    EXPECT_THAT(test::error_of([&] { split(expression, text); }), StartsWith("FILE: field f: ")) << expression;
  }
}

TEST(Pattern, MatchesLongRunsOfOneCharacter) {
  const std::string spaces(1 << 20, ' ');
  const std::string llama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                             R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_THAT(split(llama3, spaces + "x"), ElementsAre(spaces.substr(1), " x"));
  EXPECT_THAT(split(llama3, std::string(1 << 20, 'a')), ::testing::SizeIs(1));
  EXPECT_THAT(split(llama3, std::string(1 << 20, '!')), ::testing::SizeIs(1));
  EXPECT_THAT(split(llama3, std::string(1 << 17, '1')), ::testing::SizeIs(((1 << 17) + 2) / 3));
}

TEST(Pattern, QuotesEveryCharacter) {
  std::string all;
  for (char character = 1; character > 0; ++character) all += character;
  all += "é";
  EXPECT_THAT(split(quote_for_pattern(all), "<" + all + ">"), ElementsAre("<", all, ">"));
}

}  // namespace
}  // namespace draftproof::pattern_test
