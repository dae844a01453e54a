// SPDX-License-Identifier: MIT
// The kind ngram-simple, as its name opens it.
#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "ref/drafts/drafts.h"
#include "ref/models/hash.h"
#include "tests/drafts/text_draft_support.h"

namespace draftproof::ngram_simple_test {
namespace {

struct Settings {
  int n;
  int m;
};

NewDraft of(const Settings& settings) {
  const std::string name = "ngram-simple?n=" + std::to_string(settings.n) + ",m=" + std::to_string(settings.m);
  const auto target = make_hash_model({.vocabulary = 5});
  const DraftStage stage = parse_draft_spec(name).stages[0];
  const std::shared_ptr<Drafter> drafter = stage.kind->load(stage, nullptr, *target, best_kernels());
  return [=] { return drafter->open(1 << 20, 0); };
}

Definition definition_of(const Settings& settings) {
  return [=](const Text& text, int limit) {
    const int length = static_cast<int>(text.size());
    Text tokens;
    for (int end = length - 1; end >= settings.n && tokens.empty(); --end) {
      bool same = true;
      for (int i = 1; i <= settings.n; ++i) same = same && text[end - i] == text[length - i];
      if (!same) continue;
      for (int i = 0; i < std::min(limit, settings.m); ++i) {
        tokens.push_back(end + i < length ? text[end + i] : tokens[end + i - length]);
      }
    }
    return tokens;
  };
}

const std::vector<Settings> settings_list = {{1, 3}, {2, 5}, {3, 2}};

TEST(NgramSimple, IsItsDefinition) {
  for (const auto& settings : settings_list) expect_definition(of(settings), definition_of(settings), 10);
}

TEST(NgramSimple, KeepsNoTraceOfRoundsOrOfAForgottenText) {
  for (const auto& settings : settings_list) expect_no_trace_of_rounds(of(settings), definition_of(settings), 8);
}

TEST(NgramSimple, GoesOnWithItsDraftTokensWhereTheTextEnds) {
  EXPECT_EQ(continued(of({2, 7}), "abcab"), "cabcabc");
  EXPECT_EQ(continued(of({1, 4}), "aa"), "aaaa");
}

void expect_definition_up_to(int longest) {
  for (const auto& settings : settings_list) {
    expect_definition(of(settings), definition_of(settings), longest);
    expect_no_trace_of_rounds(of(settings), definition_of(settings), longest);
  }
}
TEST(NgramSimpleSlow, IsItsDefinitionForLongerTexts) { expect_definition_up_to(10); }
TEST(NgramSimpleSweep, IsItsDefinitionForTextsOfTwelveLetters) { expect_definition_up_to(12); }

TEST(NgramSimpleSlow, TakesNoMoreTimePerTokenInALongText) { expect_time_per_token_not_to_grow(of({3, 16})); }

}  // namespace
}  // namespace draftproof::ngram_simple_test
