// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_map_k4v.h"

#include <gtest/gtest.h>

#include "tests/drafts/text_draft_support.h"

namespace draftproof::ngram_map_k4v_test {
namespace {

NewDraft of(const NgramMapK4vSettings& settings) {
  return [=] { return std::make_unique<NgramMapK4vDraft>(1024, settings); };
}

Definition definition_of(const NgramMapK4vSettings& settings) {
  return [=](const Text& text, int limit) {
    const int length = static_cast<int>(text.size());
    std::vector<Text> kept;
    std::vector<int> counts;
    int occurrences = 0;
    for (int end = settings.n; end + settings.m < length; ++end) {
      bool same = true;
      for (int i = 1; i <= settings.n; ++i) same = same && text[end - i] == text[length - i];
      if (!same) continue;
      ++occurrences;
      const Text continuation(text.begin() + end, text.begin() + end + settings.m);
      std::size_t which = 0;
      while (which < kept.size() && kept[which] != continuation) ++which;
      if (which == kept.size()) {
        if (which == 4) continue;
        kept.push_back(continuation);
        counts.push_back(0);
      }
      ++counts[which];
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (occurrences < settings.min_hits || counts[i] < 2 * (occurrences - counts[i])) continue;
      Text tokens = kept[i];
      tokens.resize(static_cast<std::size_t>(std::min(limit, settings.m)));
      return tokens;
    }
    return Text();
  };
}

const std::vector<NgramMapK4vSettings> settings_list = {{1, 1, 1}, {1, 2, 1}, {1, 2, 3}, {2, 3, 1}};

TEST(NgramMapK4v, IsItsDefinition) {
  for (const auto& settings : settings_list) expect_definition(of(settings), definition_of(settings), 10);
}

TEST(NgramMapK4v, KeepsNoTraceOfRoundsOrOfAForgottenText) {
  for (const auto& settings : settings_list) expect_no_trace_of_rounds(of(settings), definition_of(settings), 8);
}

TEST(NgramMapK4v, NeedsTwiceTheWeightOfAllOthers) {
  EXPECT_EQ(continued(of({1, 1, 1}), "abacaba"), "b") << "2 of 3";
  EXPECT_EQ(continued(of({1, 1, 1}), "abacabaca"), "") << "2 of 4";
  EXPECT_EQ(continued(of({1, 1, 1}), "abacabacaba"), "") << "3 of 5";
  EXPECT_EQ(continued(of({1, 1, 1}), "abacabacababa"), "b") << "4 of 6";
  EXPECT_EQ(continued(of({1, 1, 1}), "abaca"), "") << "one of each";
}

TEST(NgramMapK4v, ProposesTheMajorityWhereTheLastOccurrenceWasFollowedByAnother) {
  EXPECT_EQ(continued(of({1, 2, 1}), "abcabcadea"), "bc");
  EXPECT_EQ(continued(of({1, 2, 1}), "adeabcabca"), "bc") << "whichever was first";
}

TEST(NgramMapK4v, CountsTheFifthContinuationAndLaterOnesAgainstTheFour) {
  EXPECT_EQ(continued(of({1, 1, 1}), "abacadaeafafafafafafafafafafa"), "") << "10 of 14, but it is not kept";
  EXPECT_EQ(continued(of({1, 1, 1}), "abababababacadaea"), "") << "5 of 8";
  EXPECT_EQ(continued(of({1, 1, 1}), "abababababababacadaea"), "b") << "7 of 10";
  EXPECT_EQ(continued(of({1, 1, 1}), "abababababababacadaeafa"), "") << "7 of 11";
  EXPECT_EQ(continued(of({1, 1, 1}), "ababababababababacadaeafa"), "b") << "8 of 12";
}

TEST(NgramMapK4v, CountsAContinuationWhenItsLastTokenLiesBeforeTheAnchor) {
  EXPECT_EQ(continued(of({1, 2, 1}), "abca"), "bc");
  EXPECT_EQ(continued(of({1, 2, 1}), "aba"), "") << "the second token is the anchor";
  EXPECT_EQ(continued(of({1, 2, 3}), "abcabca"), "");
  EXPECT_EQ(continued(of({1, 2, 2}), "abcabca"), "bc");
}

TEST(NgramMapK4v, KeepsNoMoreThanItsFormula) {
  NgramMapK4vDraft draft(8, {3, 8, 1});
  expect_table_bytes(draft, NgramMapK4vDraft::bytes_per_ngram, 0);
}

void expect_definition_up_to(int longest) {
  for (const auto& settings : settings_list) {
    expect_definition(of(settings), definition_of(settings), longest);
    expect_no_trace_of_rounds(of(settings), definition_of(settings), longest);
  }
}
TEST(NgramMapK4vSlow, IsItsDefinitionForLongerTexts) { expect_definition_up_to(10); }
TEST(NgramMapK4vSweep, IsItsDefinitionForTextsOfTwelveLetters) { expect_definition_up_to(12); }

TEST(NgramMapK4vSlow, TakesNoMoreTimePerTokenInALongText) { expect_time_per_token_not_to_grow(of({3, 8, 1})); }

}  // namespace
}  // namespace draftproof::ngram_map_k4v_test
