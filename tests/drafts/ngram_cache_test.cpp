// SPDX-License-Identifier: MIT
#include "ref/drafts/ngram_cache.h"

#include <gtest/gtest.h>

#include <map>

#include "kernels/kernels.h"
#include "ref/drafts/drafts.h"
#include "ref/models/hash.h"
#include "tests/drafts/lookup_files.h"
#include "tests/drafts/text_draft_support.h"

namespace draftproof::ngram_cache_test {
namespace {

/// What followed two tokens elsewhere, and how often.
using Lookup = std::map<Text, std::map<Token, int>>;

NgramCacheSettings settings_of(const Lookup& lookup, int m) {
  auto counts = std::make_shared<NgramCounts>();
  for (const auto& [ngram, continuations] : lookup) {
    for (const auto& [token, count] : continuations) {
      counts->make_room(1);
      counts->add(Ngram(ngram), token, count, [](Token) { return 1; });
    }
  }
  return {.m = m, .lookup = lookup.empty() ? nullptr : counts};
}

NewDraft of(const Lookup& lookup = {}, int m = 8) {
  return [settings = settings_of(lookup, m)] { return std::make_unique<NgramCacheDraft>(1024, settings); };
}

Definition definition_of(const Lookup& lookup = {}, int m = 8) {
  return [=](const Text& text, int limit) {
    const auto elsewhere = [&](const Text& x, Token c) {
      if (x.size() < 2) return 0;
      const auto found = lookup.find(Text(x.end() - 2, x.end()));
      return found != lookup.end() && found->second.count(c) > 0 ? found->second.at(c) : 0;
    };
    constexpr int total_min[] = {0, 2, 2, 1, 1}, percent_min[] = {0, 66, 50, 50, 50};
    Text x = text;
    while (static_cast<int>(x.size() - text.size()) < std::min(limit, m)) {
      Token next = -1;
      for (int n = 4; n >= 1 && next < 0; --n) {
        if (static_cast<int>(x.size()) < n) continue;
        const Text g(x.end() - n, x.end());
        int count[3] = {}, total = 0;
        for (std::size_t i = static_cast<std::size_t>(n); i < text.size(); ++i) {
          if (!std::equal(g.begin(), g.end(), text.begin() + static_cast<std::ptrdiff_t>(i) - n)) continue;
          ++count[text[i]];
          ++total;
        }
        Token best = -1;
        int best_score = 0;
        for (Token c = 0; c < 3; ++c) {
          const int times = elsewhere(g, c);
          const int score = count[c] * (times > 0 ? 100 * times : 1);
          if (score > best_score) {
            best_score = score;
            best = c;
          }
        }
        if (total >= total_min[n] && 100 * count[best] >= percent_min[n] * total) next = best;
      }
      if (next < 0) {
        int total = 0;
        Token best = 0;
        for (Token c = 0; c < 3; ++c) {
          total += elsewhere(x, c);
          if (elsewhere(x, c) > elsewhere(x, best)) best = c;
        }
        if (total >= 2 && 100 * elsewhere(x, best) >= 50 * total) next = best;
      }
      if (next < 0) break;
      x.push_back(next);
    }
    return Text(x.begin() + static_cast<std::ptrdiff_t>(text.size()), x.end());
  };
}

const Lookup lookups[] = {
    {},
    {{{0, 1}, {{2, 3}, {0, 1}}}, {{1, 1}, {{0, 1}}}, {{2, 0}, {{0, 1}, {1, 1}, {2, 1}}}, {{2, 2}, {{1, 2}}}},
    {{{0, 0}, {{2, 1}}}, {{1, 0}, {{1, 5}, {2, 5}}}, {{0, 2}, {{1, 2}}}, {{1, 2}, {{0, 1}, {1, 2}}}},
};

TEST(NgramCache, IsItsDefinition) {
  for (const Lookup& lookup : lookups) expect_definition(of(lookup), definition_of(lookup), 9);
}

TEST(NgramCache, KeepsNoTraceOfRoundsOrOfAForgottenText) {
  for (const Lookup& lookup : lookups) expect_no_trace_of_rounds(of(lookup, 5), definition_of(lookup, 5), 8);
}

TEST(NgramCache, TakesTheLongestNgramThatIsSureEnough) {
  EXPECT_EQ(continued(of({}, 1), "abcdxbcdyzbcdyabcd"), "x") << "abcd: x, though bcd: y twice of three times";
  EXPECT_EQ(continued(of({}, 1), "abcdxebcdyebcdyqbcd"), "y") << "of qbcd nothing, bcd: y";
  EXPECT_EQ(continued(of({}, 1), "ab"), "");
  EXPECT_EQ(continued(of({}, 1), "bda"), "") << "nothing followed a";
}

TEST(NgramCache, NeedsTheCountsAndThePercentageOfItsLength) {
  EXPECT_EQ(continued(of({}, 1), "axbyczazb"), "") << "zb: nothing; b: y, but once, not twice";
  EXPECT_EQ(continued(of({}, 1), "axbyqbywb"), "y") << "b: y twice";
  EXPECT_EQ(continued(of({}, 1), "abydbyebzfb"), "y") << "b: y twice of three times, 66.7 percent";
  EXPECT_EQ(continued(of({}, 1), "cbydbyebzfbxhb"), "") << "b: y twice of four times";
  EXPECT_EQ(continued(of({}, 1), "qabyrabzsab"), "y") << "ab: y and z once each, 50 percent; the smaller one";
  EXPECT_EQ(continued(of({}, 1), "qabyrabzsabxuab"), "") << "ab: one each of three; b the same";
  EXPECT_EQ(continued(of({}, 1), "qabrsab"), "") << "ab: r, but once";
  EXPECT_EQ(continued(of({}, 1), "qabrqab"), "r") << "once is enough for qab";
}

TEST(NgramCache, CountsNgramsAcrossThePiecesThatItObserves) {
  NgramCacheDraft draft(8, {.m = 8});
  const Text text = text_of("abcdabcdab");
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    draft_tokens_after(draft, Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i) + 1), 8);
    draft.observe(std::span(text).subspan(i, 1), {});
  }
  EXPECT_EQ(shown(draft_tokens_after(draft, text, 8)), "cdabcdab");
}

TEST(NgramCache, LetsTheLookupFileDecideAndSpeakWhereTheTextIsSilent) {
  const Lookup lookup = {
      {text_of("ab"), {{'z' - 'a', 1}}}, {text_of("bz"), {{'q' - 'a', 2}}}, {text_of("zq"), {{'p' - 'a', 1}}}};
  EXPECT_EQ(continued(of({}, 1), "dabycabzuab"), "y") << "ab: y and z once each; the smaller one";
  EXPECT_EQ(continued(of(lookup, 1), "dabycabzuab"), "z") << "100 to 1 for z";
  EXPECT_EQ(continued(of(lookup, 1), "dabycabyeabzbwuab"), "") << "but z has less than half of the counts";
  EXPECT_EQ(continued(of(lookup), "kbz"), "q") << "seen twice elsewhere; p, seen once, is not enough";
}

TEST(NgramCache, KeepsNoMoreThanItsFormula) {
  NgramCacheDraft draft(8, {.m = 8});
  EXPECT_EQ(draft.table_bytes(), 0U);
  expect_table_bytes(draft, NgramCacheDraft::bytes_per_token, 4096);
}

TEST(NgramCacheKind, HasAnOptionalLookupFileAndItsMemoryIsAtMostFiveTimesTheFile) {
  const test::Folder folder;
  const std::filesystem::path file = file_of(folder, {1, 2, -1, -1, 1, 4, 2});
  const auto target = make_hash_model({.vocabulary = 5});
  for (const bool with_file : {false, true}) {
    const std::string name = "ngram-cache" + (with_file ? ":" + file.string() : "") + "?m=3";
    const DraftStage stage = parse_draft_spec(name).stages[0];
    const MemoryNeed need = stage.kind->need(stage, nullptr, {}, best_kernels());
    EXPECT_EQ(need.cache_per_position, 4U + NgramCacheDraft::bytes_per_token);
    EXPECT_EQ(need.total(0), with_file ? 140U : 0U);
    const auto draft = stage.kind->load(stage, nullptr, *target, best_kernels())->open(1000, 0);
    EXPECT_EQ(draft->draft_max(), 3);
    const Text text = {1, 2};
    observe_up_to_anchor(*draft, text);
    EXPECT_EQ(draft_tokens_after(*draft, text, 3), with_file ? Text{4} : Text{});
  }
}

void expect_definition_up_to(int longest) {
  for (const Lookup& lookup : lookups) {
    expect_definition(of(lookup), definition_of(lookup), longest);
    expect_no_trace_of_rounds(of(lookup), definition_of(lookup), longest);
  }
}
TEST(NgramCacheSlow, IsItsDefinitionForLongerTexts) { expect_definition_up_to(10); }
TEST(NgramCacheSweep, IsItsDefinitionForTextsOfTwelveLetters) { expect_definition_up_to(12); }

TEST(NgramCacheSlow, TakesNoMoreTimePerTokenInALongText) {
  expect_time_per_token_not_to_grow(of());
  expect_time_per_token_not_to_grow(of(lookups[1]));
}

}  // namespace
}  // namespace draftproof::ngram_cache_test
