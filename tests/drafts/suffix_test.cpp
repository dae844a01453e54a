// SPDX-License-Identifier: MIT
#include "ref/drafts/suffix.h"

#include "kernels/kernels.h"
#include "ref/base/digest.h"
#include "ref/base/error.h"
#include "ref/drafts/drafts.h"
#include "ref/models/hash.h"
#include "tests/drafts/support.h"
#include "tests/drafts/texts.h"
#include "tests/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>

namespace draftproof::suffix_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Token separator = -1;
const SuffixSettings defaults = {.depth = 64, .min_match = 1, .min_prob = 0.1, .factor = 1, .offset = 0, .m = 16};

/// The definition of suffix.h, as loops over the text. Tokens: 0, 1, 2.
struct Scored {
  double score = 0;
  std::vector<Token> tokens;
};

Scored scored(std::span<const Token> text, std::span<const Token> looked_up, const SuffixSettings& settings,
              int limit) {
  const auto n = [&](const std::vector<Token>& s) {
    int count = 0;
    for (std::size_t i = 0; i + s.size() <= looked_up.size(); ++i) {
      count += std::equal(s.begin(), s.end(), looked_up.begin() + static_cast<std::ptrdiff_t>(i)) ? 1 : 0;
    }
    return count;
  };
  const auto with = [](std::vector<Token> s, Token c) {
    s.push_back(c);
    return s;
  };
  const auto f = [&](const std::vector<Token>& s) { return n(with(s, 0)) + n(with(s, 1)) + n(with(s, 2)); };
  Scored best;
  for (int len = settings.min_match; len < settings.depth && len <= std::ssize(text); ++len) {
    std::vector<Token> s(text.end() - len, text.end());
    if (f(s) == 0) break;
    Scored candidate;
    double p = 1;
    const int max =
        std::min({limit, settings.m, static_cast<int>(std::floor(len * settings.factor + settings.offset + 1e-6))});
    while (std::ssize(candidate.tokens) < max && std::ssize(s) < settings.depth && f(s) > 0) {
      Token c = 0;
      for (const Token other : {1, 2}) {
        if (n(with(s, other)) > n(with(s, c))) c = other;
      }
      p = p * (static_cast<double>(n(with(s, c))) / static_cast<double>(f(s)));
      if (p < settings.min_prob) break;
      candidate.tokens.push_back(c);
      candidate.score += p;
      s.push_back(c);
    }
    if (candidate.score >= best.score) best = candidate;
  }
  return best;
}

std::vector<Token> defined(std::span<const Token> text, const SuffixSettings& settings, int limit) {
  Scored best = scored(text, text, settings, limit);
  if (settings.corpus) {
    const Scored other = scored(text, settings.corpus->text(), settings, limit);
    if (other.score > best.score) best = other;
  }
  return best.tokens;
}

std::vector<Token> proposed(Draft& draft, std::span<const Token> text, int limit) {
  PhiloxSource random(1);
  return propose(draft, text, std::min(limit, draft.draft_max()), {}, random).tokens;
}

/// What a draft proposes that is new and has seen this text only.
std::vector<Token> first_proposal(std::span<const Token> text, const SuffixSettings& settings, int limit) {
  SuffixDraft draft(limit, settings);
  draft.observe(text.first(text.size() - 1), {});
  return proposed(draft, text, limit);
}

/// Calls `take` with every text over 0, 1, 2 of 1 to `longest` tokens.
template <class Take>
void for_all_texts(std::size_t longest, const Take& take) {
  std::vector<Token> text;
  const auto visit = [&](const auto& self) -> void {
    if (!text.empty()) take(std::span<const Token>(text));
    if (text.size() == longest || ::testing::Test::HasFatalFailure()) return;
    for (const Token token : {0, 1, 2}) {
      text.push_back(token);
      self(self);
      text.pop_back();
    }
  };
  visit(visit);
}

std::vector<SuffixSettings> some_settings() {
  return {
      defaults,
      {.depth = 64, .min_match = 1, .min_prob = 0.5, .factor = 2, .offset = 0, .m = 16},
      {.depth = 3, .min_match = 1, .min_prob = 0, .factor = 0.5, .offset = 1, .m = 16},
      {.depth = 5, .min_match = 2, .min_prob = 0.3, .factor = 0, .offset = 3, .m = 16},
      {.depth = 64, .min_match = 3, .min_prob = 1, .factor = 3, .offset = -4, .m = 2},
      {.depth = 2, .min_match = 1, .min_prob = 0.1, .factor = 4, .offset = 0, .m = 16},
      // In doubles, 3 * 0.3 + 0.1 is less than 1.
      {.depth = 64, .min_match = 3, .min_prob = 0, .factor = 0.3, .offset = 0.1, .m = 16},
  };
}

void expect_as_defined(std::size_t longest) {
  for (const SuffixSettings& settings : some_settings()) {
    for_all_texts(longest, [&](std::span<const Token> text) {
      for (const int limit : {1, 16}) {
        ASSERT_EQ(first_proposal(text, settings, limit), defined(text, settings, limit))
            << ::testing::PrintToString(std::vector(text.begin(), text.end())) << " depth " << settings.depth;
      }
    });
  }
}

TEST(SuffixDraft, ProposesWhatIsDefinedOfEveryTextOverThreeLetters) { expect_as_defined(7); }
TEST(SuffixDraftSlow, ProposesWhatIsDefinedOfEveryTextOverThreeLetters) { expect_as_defined(9); }

TEST(SuffixDraft, ProposesWhatIsDefinedOfLongerTexts) {
  for (const SuffixSettings& settings : some_settings()) {
    for (std::uint32_t seed = 1; seed <= 30; ++seed) {
      std::vector<Token> text = random_text(40, 1 + seed % 3, seed);
      text.insert(text.end(), text.begin() + 3, text.begin() + 30);
      for (std::size_t size = 60; size <= text.size(); ++size) {
        const auto begin = std::span<const Token>(text).first(size);
        ASSERT_EQ(first_proposal(begin, settings, 16), defined(begin, settings, 16));
      }
    }
  }
}

TEST(SuffixDraft, ProposesTheContinuationOfTheLongestMatchAndOfTheMostFrequentOne) {
  // After "1 2" came 5 twice and 6 once; after "9 1 2" only 6.
  const std::vector<Token> text = {1, 2, 5, 0, 1, 2, 5, 0, 9, 1, 2, 6, 7, 8, 9, 1, 2};
  EXPECT_THAT(first_proposal(text, defaults, 16), ElementsAre(6, 7, 8));
  SuffixSettings two = defaults;
  two.depth = 4;  // matches of at most 3, with one token after it
  EXPECT_THAT(first_proposal(text, two, 16), ElementsAre(5, 0));
}

TEST(SuffixDraft, KeepsADraftTokenWhoseProbabilityIsExactlyTheLeast) {
  const std::vector<Token> text = {1, 2, 1, 3, 1};  // after 1: 2 and 3, each with one half
  SuffixSettings settings = defaults;
  settings.min_prob = 0.5;
  EXPECT_THAT(first_proposal(text, settings, 16), ElementsAre(2));
  settings.min_prob = std::nextafter(0.5, 1);
  EXPECT_THAT(first_proposal(text, settings, 16), IsEmpty());
}

TEST(SuffixDraft, ProposesTheSameAfterAnyHistoryAsANewOne) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    const SuffixSettings settings = some_settings()[seed % some_settings().size()];
    const std::vector<Token> text = random_text(90, 1 + seed % 3, seed);
    const std::span<const Token> all = text;
    SuffixDraft draft(16, settings);
    std::size_t observed = 0;
    for (const int run : cuts(80, 12, seed)) {
      std::vector<Token> other(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(observed));
      other.push_back(static_cast<Token>((seed + observed) % 3));  // the anchor, or what it is not
      if (seed % 4 != 0) proposed(draft, other, 16);
      if (seed % 5 == 0) proposed(draft, all.first(observed + 1), 1);
      draft.observe(all.subspan(observed, static_cast<std::size_t>(run)), {});
      observed += static_cast<std::size_t>(run);
      ASSERT_EQ(proposed(draft, all.first(observed + 1), 16), first_proposal(all.first(observed + 1), settings, 16));
      SuffixDraft fresh(16, settings);
      fresh.observe(all.first(observed), {});
      ASSERT_EQ(draft.digest(), fresh.digest());
    }
    draft.observe(random_text(7, 3, seed), {});
    draft.take_back(7);
    ASSERT_EQ(proposed(draft, all.first(observed + 1), 16), first_proposal(all.first(observed + 1), settings, 16));
    draft.forget();
    draft.observe(all.last(40).first(39), {});
    ASSERT_EQ(proposed(draft, all.last(40), 16), first_proposal(all.last(40), settings, 16));
  }
}

/// A file of these tokens.
std::filesystem::path corpus_file(const test::Folder& folder, const std::vector<Token>& tokens) {
  const std::filesystem::path file = folder.path() / "corpus.bin";
  test::put(file, std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)));
  return file;
}

TEST(SuffixDraft, WithACorpusProposesWhatIsDefinedOfEveryTextOverThreeLetters) {
  const test::Folder folder;
  const std::vector<Token> corpora[] = {{0, 1, 2, 0, 1, 1},
                                        {separator, 0, 1, separator, separator, 1, 2, 2, 0, separator},
                                        {2, 1, 0, 2, 1, separator, 2, 1, 0, 2, 2}};
  for (const std::vector<Token>& tokens : corpora) {
    const std::filesystem::path file = corpus_file(folder, tokens);
    for (SuffixSettings settings : some_settings()) {
      settings.corpus = std::make_shared<SuffixCorpus>(file, 3, settings.depth);
      EXPECT_EQ(settings.corpus->tree().fault(settings.corpus->text()), "");
      for_all_texts(5, [&](std::span<const Token> text) {
        ASSERT_EQ(first_proposal(text, settings, 16), defined(text, settings, 16));
      });
    }
  }
}

std::string index_bytes(const std::vector<Token>& tokens) {
  std::string bytes;
  SuffixIndex::write(tokens, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

/// A file of these tokens with an index.
std::filesystem::path index_file(const test::Folder& folder, const std::vector<Token>& tokens) {
  const std::filesystem::path file = folder.path() / "corpus.index";
  test::put(file, index_bytes(tokens));
  return file;
}

TEST(SuffixIndex, GivesTheDraftTokensOfTheSameCorpusWithoutOne) {
  const test::Folder folder;
  std::vector<std::vector<Token>> corpora = {
      {0}, {0, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 0, 1, 1}, {separator, 0, 1, separator, separator, 1, 2, 2, 0, separator}};
  for (int seed = 1; seed <= 4; ++seed) corpora.push_back(random_text(200, 3, seed));
  for (const std::vector<Token>& tokens : corpora) {
    for (SuffixSettings settings : some_settings()) {
      SuffixSettings indexed = settings;
      settings.corpus = std::make_shared<SuffixCorpus>(corpus_file(folder, tokens), 3, settings.depth);
      indexed.index = std::make_shared<SuffixIndex>(index_file(folder, tokens), 3);
      for_all_texts(5, [&](std::span<const Token> text) {
        ASSERT_EQ(first_proposal(text, indexed, 16), first_proposal(text, settings, 16));
      });
    }
  }
}

TEST(SuffixIndex, FindsAllOccurrencesAndWhatFollowsMostOften) {
  const test::Folder folder;
  const std::vector<Token> text = {1, 2, 3, separator, 1, 2, 4, 1, 2, 4, 1, 2};
  const SuffixIndex index(index_file(folder, text), 5);
  const auto place = index.find(std::vector<Token>{1, 2});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->count, 4U);
  const auto next = index.most_frequent(*place, 0.1);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->token, 4);
  EXPECT_EQ(next->share, 2.0 / 3);
  EXPECT_FALSE(index.most_frequent(*place, 1)) << "no token is that likely";
  EXPECT_FALSE(index.most_frequent(*index.find(std::vector<Token>{2, 3}), 0)) << "a text ends there";
  EXPECT_FALSE(index.find(std::vector<Token>{3, 1})) << "no string spans two texts";
}

std::string error_of_index(const std::filesystem::path& file) {
  try {
    const SuffixIndex index(file, 5);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SuffixIndex, OfADamagedFileIsAnErrorThatNamesItAndSaysWhatToDo) {
  const test::Folder folder;
  const std::vector<Token> text = {1, 2, 3, separator, 1, 2, 4};
  const std::filesystem::path file = index_file(folder, text);
  const std::string good = index_bytes(text);
  EXPECT_EQ(error_of_index(file), "");
  for (std::size_t size = 0; size < good.size(); ++size) {
    test::put(file, good.substr(0, size));
    EXPECT_THAT(error_of_index(file), HasSubstr(file.string())) << size;
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    test::put(file, bad);
    EXPECT_THAT(error_of_index(file), AllOf(HasSubstr(file.string()), HasSubstr("draftproof corpus"))) << at;
  }
  test::put(file, good + "more");
  EXPECT_THAT(error_of_index(file), HasSubstr("has 92 bytes, and an index of 7 tokens 88"));
  index_file(folder, {1, 5});
  EXPECT_THAT(error_of_index(file), HasSubstr("5 at token 1 is none of the target, 0 to 4"));
  EXPECT_THAT(error_of_index(folder.path()), HasSubstr("is not a file"));
  EXPECT_THAT(error_of_index(folder.path() / "none"), HasSubstr("cannot be opened"));
}

/// An index of these parts, whatever they are, with the right fingerprint.
std::string sealed_index(const std::vector<Token>& text, const std::vector<std::uint32_t>& places) {
  Digest digest;
  digest.add(std::span<const Token>(text));
  digest.add(std::span<const std::uint32_t>(places));
  std::string bytes = index_bytes(text);
  const std::uint64_t halves[] = {digest.value().high, digest.value().low};
  std::memcpy(bytes.data() + 16, halves, sizeof halves);
  std::memcpy(bytes.data() + 32 + 4 * text.size(), places.data(), 4 * places.size());
  return bytes;
}

TEST(SuffixIndex, InAnyOrderGivesDraftTokensOfTheTargetAndWithPlacesBehindTheTextIsRefused) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "corpus.index";
  const std::vector<Token> text = {separator, 0, 1, separator, 2, 1, 2, 2, 0, separator, 1, 0};
  std::vector<std::uint32_t> places(text.size());
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::uint32_t number = seed;
    for (std::uint32_t& place : places) {
      number = number * 1664525U + 1013904223U;
      place = (number >> 16) % static_cast<std::uint32_t>(text.size());
    }
    test::put(file, sealed_index(text, places));
    SuffixSettings settings = defaults;
    settings.index = std::make_shared<SuffixIndex>(file, 3);
    for_all_texts(3, [&](std::span<const Token> asked) {
      for (const Token token : first_proposal(asked, settings, 16)) {
        ASSERT_GE(token, 0);
        ASSERT_LT(token, 3);
      }
    });
  }
  places[3] = static_cast<std::uint32_t>(text.size());
  test::put(file, sealed_index(text, places));
  EXPECT_THAT(error_of_index(file), HasSubstr("its place 3 lies behind the text"));
}

TEST(SuffixDraft, TakesTheCorpusOnlyWhenItsScoreIsLarger) {
  const test::Folder folder;
  SuffixSettings settings = defaults;
  settings.corpus = std::make_shared<SuffixCorpus>(corpus_file(folder, {1, 2, 3, 4}), 10, settings.depth);
  EXPECT_THAT(first_proposal(std::vector<Token>{7, 1, 2}, settings, 16), ElementsAre(3, 4));
  EXPECT_THAT(first_proposal(std::vector<Token>{1, 2, 9, 9, 1, 2}, settings, 16), ElementsAre(9, 9));
  EXPECT_THAT(first_proposal(std::vector<Token>{2, 9, 9, 1, 2}, settings, 16), ElementsAre(3, 4));
}

std::string error_of_corpus(const std::filesystem::path& file) {
  try {
    const SuffixCorpus corpus(file, 10, 8);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SuffixCorpus, OfADamagedFileIsAnErrorThatNamesItAndSaysWhatToDo) {
  const test::Folder folder;
  const std::filesystem::path file = folder.path() / "corpus.bin";
  EXPECT_THAT(error_of_corpus(file), AllOf(HasSubstr(file.string()), HasSubstr("cannot be found")));
  EXPECT_THAT(error_of_corpus(folder.path()), AllOf(HasSubstr(folder.path().string()), HasSubstr("is not a file")));
  EXPECT_THAT(error_of_corpus("/dev/zero"), HasSubstr("/dev/zero: is not a file"));
  test::put(file, "");
  EXPECT_THAT(error_of_corpus(file), AllOf(HasSubstr(file.string()), HasSubstr("is empty"), HasSubstr("int32")));
  test::put(file, std::string(11, '\0'));
  EXPECT_THAT(error_of_corpus(file), AllOf(HasSubstr(file.string()), HasSubstr("ends within a token, at offset 8")));
  corpus_file(folder, {1, 2, 10});
  EXPECT_THAT(error_of_corpus(file), AllOf(HasSubstr(file.string() + ": 10 at offset 8"), HasSubstr("0 to 9"),
                                           HasSubstr("use the target's tokenizer")));
  corpus_file(folder, {1, -2, 3});
  EXPECT_THAT(error_of_corpus(file), HasSubstr("-2 at offset 4"));
  corpus_file(folder, {-2147483647 - 1});
  EXPECT_THAT(error_of_corpus(file), HasSubstr("-2147483648 at offset 0"));
  std::filesystem::resize_file(file, 4 * (static_cast<std::uintmax_t>(SuffixCorpus::max_tokens) + 1));
  EXPECT_THAT(error_of_corpus(file), AllOf(HasSubstr("16777217 tokens"), HasSubstr("at most 16777216")));
  corpus_file(folder, {-1, -1, -1});
  EXPECT_EQ(error_of_corpus(file), "");
}

TEST(SuffixKind, HasAnOptionalPathAndItsMemoryIsThatOfTheCorpus) {
  const test::Folder folder;
  const std::filesystem::path file = corpus_file(folder, random_text(100, 5, 1));
  const auto target = make_hash_model({.vocabulary = 5});
  for (const bool with_corpus : {false, true}) {
    const std::string name = "suffix" + (with_corpus ? ":" + file.string() : "") + "?depth=9,m=4";
    const DraftStage stage = parse_draft_spec(name).stages[0];
    EXPECT_EQ(stage.path, with_corpus ? file : "");
    EXPECT_EQ(stage.name_with(stage.path), name);
    const MemoryNeed need = stage.kind->need(stage, nullptr, {}, best_kernels());
    EXPECT_EQ(need.cache_per_position, 132U);
    EXPECT_EQ(need.total(0), with_corpus ? 13200U : 0U);
    const auto draft = stage.kind->load(stage, nullptr, *target, best_kernels())->open(1000, 0);
    EXPECT_EQ(draft->draft_max(), 4);
  }
  try {
    parse_draft_spec("suffix:");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "draft 'suffix:' needs a path: suffix:PATH");
  }
}

}  // namespace
}  // namespace draftproof::suffix_test
