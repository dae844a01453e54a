// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_mod.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/drafts/text_draft_support.h"

namespace draftproof::ngram_mod_test {
namespace {

NewDraft of(const NgramModSettings& settings) {
  return [=] { return std::make_unique<NgramModDraft>(1024, settings); };
}

constexpr std::uint64_t factor = 6364136223846793005U;

Definition definition_of(const NgramModSettings& settings) {
  return [=](Text text, int limit) {
    const auto slot_before = [&](std::size_t end) {
      std::uint64_t hash = 0;
      for (std::size_t i = end - static_cast<std::size_t>(settings.n); i < end; ++i) {
        hash = (hash + static_cast<std::uint64_t>(text[i])) * factor;
      }
      hash = (hash ^ (hash / (std::uint64_t{1} << 32))) * factor;
      return hash / (std::uint64_t{1} << (64 - settings.bits));
    };
    std::map<std::uint64_t, Token> table;
    for (auto i = static_cast<std::size_t>(settings.n); i < text.size(); ++i) table[slot_before(i)] = text[i];
    Text tokens;
    while (static_cast<int>(tokens.size()) < std::min(limit, settings.m) && !table.empty()) {
      const auto found = table.find(slot_before(text.size()));
      if (found == table.end()) break;
      tokens.push_back(found->second);
      text.push_back(found->second);
    }
    return tokens;
  };
}

const std::vector<NgramModSettings> settings_list = {{1, 3, 1}, {2, 5, 2}, {3, 4, 4}, {2, 6, 10}};

TEST(NgramMod, IsItsDefinition) {
  for (const auto& settings : settings_list) expect_definition(of(settings), definition_of(settings), 10);
}

TEST(NgramMod, KeepsNoTraceOfRoundsOrOfAForgottenText) {
  for (const auto& settings : settings_list) expect_no_trace_of_rounds(of(settings), definition_of(settings), 8);
}

TEST(NgramMod, TakesTheLastTokenThatFollowedAndTheAnchorIsOne) {
  EXPECT_EQ(continued(of({2, 3, 20}), "abcabdab"), "dab");
  EXPECT_EQ(continued(of({2, 5, 20}), "aaa"), "aaaaa");
  EXPECT_EQ(continued(of({2, 5, 20}), "aab"), "") << "nothing has followed ab";
  EXPECT_EQ(continued(of({3, 7, 20}), "abcdeabc"), "deabcde") << "on through its draft tokens";
}

TEST(NgramMod, TakesNgramsOfOneSlotForEachOther) {
  const auto first_token_of_slot = [](std::uint64_t slot) {
    for (Token token = 1;; ++token) {
      const std::uint64_t hash = static_cast<std::uint64_t>(token) * factor;
      if (((hash ^ (hash >> 32)) * factor) >> 63 == slot) return token;
    }
  };
  const Token same = first_token_of_slot(0), other = first_token_of_slot(1);  // that of token 0 is 0
  NgramModDraft draft(1, {1, 1, 1});
  const Text text = {0, other, same};
  observe_up_to_anchor(draft, text);
  EXPECT_EQ(draft_tokens_after(draft, text, 1), Text{other});
}

TEST(NgramMod, SpreadsNgramsOfLargeAndSimilarTokens) {
  Text text;
  for (int i = 0; i < 1 << 14; ++i) text.push_back(100000 + i * 3);
  int found = 0;
  for (std::size_t i = 2; i < text.size(); i += 64) {
    Text longer = text;
    longer.insert(longer.end(), {text[i - 2], text[i - 1]});
    NgramModDraft draft(1, {2, 1, 16});
    observe_up_to_anchor(draft, longer);
    found += draft_tokens_after(draft, longer, 1) == Text{text[i]} ? 1 : 0;
  }
  EXPECT_GT(found, 200) << "of 256; 2^14 n-grams had 2^16 slots";
}

TEST(NgramMod, KeepsItsTableAndNoMore) {
  NgramModDraft draft(16, {4, 16, 12});
  expect_table_bytes(draft, 0, 4 << 12);
}

void expect_definition_up_to(int longest) {
  for (const auto& settings : settings_list) {
    expect_definition(of(settings), definition_of(settings), longest);
    expect_no_trace_of_rounds(of(settings), definition_of(settings), longest);
  }
}
TEST(NgramModSlow, IsItsDefinitionForLongerTexts) { expect_definition_up_to(10); }
TEST(NgramModSweep, IsItsDefinitionForTextsOfTwelveLetters) { expect_definition_up_to(12); }

TEST(NgramModSlow, TakesNoMoreTimePerTokenInALongText) { expect_time_per_token_not_to_grow(of({4, 16, 18})); }

}  // namespace
}  // namespace draftproof::ngram_mod_test
