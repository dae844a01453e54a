// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_map_k.h"

#include <gtest/gtest.h>

#include "tests/drafts/text_draft_support.h"

namespace draftproof::ngram_map_k_test {
namespace {

NewDraft of(const NgramMapKSettings& settings) {
  return [=] { return std::make_unique<NgramMapKDraft>(1024, settings); };
}

Definition definition_of(const NgramMapKSettings& settings) {
  return [=](const Text& text, int limit) {
    const int length = static_cast<int>(text.size());
    int hits = 0, last = 0;
    for (int end = settings.n; end < length; ++end) {
      bool same = true;
      for (int i = 1; i <= settings.n; ++i) same = same && text[end - i] == text[length - i];
      if (!same) continue;
      ++hits;
      last = end;
    }
    Text tokens;
    for (int i = 0; hits >= settings.min_hits && i < std::min(limit, settings.m); ++i) {
      tokens.push_back(last + i < length ? text[last + i] : tokens[last + i - length]);
    }
    return tokens;
  };
}

const std::vector<NgramMapKSettings> settings_list = {{1, 3, 1}, {1, 4, 3}, {2, 5, 2}, {3, 2, 1}};

TEST(NgramMapK, IsItsDefinition) {
  for (const auto& settings : settings_list) expect_definition(of(settings), definition_of(settings), 10);
}

TEST(NgramMapK, KeepsNoTraceOfRoundsOrOfAForgottenText) {
  for (const auto& settings : settings_list) expect_no_trace_of_rounds(of(settings), definition_of(settings), 8);
}

TEST(NgramMapK, NeedsAsManyEarlierOccurrencesAsItWasTold) {
  EXPECT_EQ(continued(of({2, 3, 1}), "abcab"), "cab");
  EXPECT_EQ(continued(of({2, 3, 2}), "abcab"), "");
  EXPECT_EQ(continued(of({2, 3, 2}), "abcabdab"), "dab") << "of two occurrences, what followed the later one";
  EXPECT_EQ(continued(of({2, 3, 3}), "abcabdab"), "");
}

TEST(NgramMapK, GoesOnWithItsDraftTokensWhereTheTextEnds) {
  EXPECT_EQ(continued(of({2, 7, 2}), "abcabcab"), "cabcabc");
  EXPECT_EQ(continued(of({1, 4, 1}), "aa"), "aaaa");
}

TEST(NgramMapK, KeepsNoMoreThanItsFormula) {
  NgramMapKDraft draft(16, {3, 16, 2});
  expect_table_bytes(draft, NgramMapKDraft::bytes_per_ngram, 0);
}

void expect_definition_up_to(int longest) {
  for (const auto& settings : settings_list) {
    expect_definition(of(settings), definition_of(settings), longest);
    expect_no_trace_of_rounds(of(settings), definition_of(settings), longest);
  }
}
TEST(NgramMapKSlow, IsItsDefinitionForLongerTexts) { expect_definition_up_to(10); }
TEST(NgramMapKSweep, IsItsDefinitionForTextsOfTwelveLetters) { expect_definition_up_to(12); }

TEST(NgramMapKSlow, TakesNoMoreTimePerTokenInALongText) { expect_time_per_token_not_to_grow(of({3, 16, 2})); }

}  // namespace
}  // namespace draftproof::ngram_map_k_test
