// SPDX-License-Identifier: MIT
// The legacy modes: ik_llama.cpp's own answers, and examples derived by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "ref/base/error.h"
#include "ref/drafts/drafts.h"
#include "ref/drafts/ngram_cache.h"
#include "ref/models/hash.h"
#include "tests/drafts/lookup_files.h"
#include "tests/drafts/simulated_rounds.h"
#include "tests/drafts/text_draft_support.h"

namespace draftproof::legacy_test {
namespace {

/// The drafter that a name opens, for tokens below 200.
std::shared_ptr<Drafter> drafter_of(const std::string& name) {
  const auto target = make_hash_model({.vocabulary = 200});
  const DraftStage stage = parse_draft_spec(name).stages[0];
  return stage.kind->load(stage, nullptr, *target, best_kernels());
}

/// One text, decoded round by round.
class Rounds {
 public:
  Rounds(const std::string& name, Text prompt) : draft_(drafter_of(name)->open(4096, 0)), text_(std::move(prompt)) {}
  Rounds(const std::string& name, const std::string& prompt) : Rounds(name, text_of(prompt)) {}

  const Text& proposal() {
    observe_up_to_anchor(*draft_, text_, observed_);
    observed_ = text_.size() - 1;
    proposal_ = draft_tokens_after(*draft_, text_, draft_->draft_max());
    return proposal_;
  }
  /// A round in which these tokens become output; the last is not a draft token. Returns the next proposal.
  std::string then(const std::string& letters) {
    for (const Token token : text_of(letters)) text_.push_back(token);
    return shown(proposal());
  }
  /// Rounds without accepted draft tokens, one for each letter. Returns the last proposal.
  std::string one_by_one(const std::string& letters) {
    std::string last;
    for (const char letter : letters) last = then({letter});
    return last;
  }

 private:
  std::unique_ptr<Draft> draft_;
  Text text_;
  std::size_t observed_ = 0;
  Text proposal_;
};

std::string first(const std::string& name, const std::string& prompt) { return shown(Rounds(name, prompt).proposal()); }

TEST(Legacy, ProposesWhatIkLlamaCppProposed) {
  // Made with the functions of its commit 8337e4cd3; of the last two kinds, with ordered maps in place of hash maps.
  struct Row {
    const char* name;
    std::uint64_t digest;
  };
  for (const Row& row : {Row{"ngram-simple?legacy=1,n=2,m=5", 0x9a74e7f978758db8U},
                         Row{"ngram-map-k?legacy=1,n=2,m=5,min_hits=1", 0x8d268ec1ae608997U},
                         Row{"ngram-map-k4v?legacy=1,n=2,m=3,min_hits=2", 0x14e3ba46e4bde673U},
                         Row{"ngram-mod?legacy=1,n=3,m=5,bits=8", 0xfbaf1d2e710df2b4U},
                         Row{"ngram-cache?legacy=1,m=5", 0x4cfe13578e0aed4cU},
                         Row{"suffix?legacy=1,m=5,depth=8,min_prob=0.05,offset=8", 0x9752a3af9ddc5accU}}) {
    const auto drafter = drafter_of(row.name);
    const auto new_text = [&]() -> RoundOf {
      const std::shared_ptr<Draft> draft = drafter->open(4096, 0);
      return [=, observed = std::size_t{0}](const Text& text, int limit, int) mutable {
        if (text.size() % 7 == 0) {  // as after a preemption
          draft->forget();
          observed = 0;
        }
        observe_up_to_anchor(*draft, text, observed);
        observed = text.size() - 1;
        return draft_tokens_after(*draft, text, std::min(limit, draft->draft_max()));
      };
    };
    EXPECT_EQ(digest_of_rounds(new_text, 300, 60), row.digest) << row.name;
  }
}

TEST(LegacyNgramSimple, NeedsALongTextAndAMatchWithNTokensAfterIt) {
  const std::string name = "ngram-simple?legacy=1,n=2,m=3";
  EXPECT_EQ(first(name, "xabcdeab"), "cde") << "L = 7, more than n + m + 1 = 6; ab at 1";
  EXPECT_EQ(first(name, "xabcdab"), "") << "L = 6";
  EXPECT_EQ(first(name, "abcdefab"), "") << "ab at 0 is never found";
  EXPECT_EQ(first(name, "xyzwqabcab"), "ca") << "ab at 5, and 2 = n tokens before the anchor";
  EXPECT_EQ(first(name, "qwertaaaa"), "") << "aa at 5, but only one token between it and the anchor";
  EXPECT_EQ(first("ngram-simple?n=2,m=3", "qwertaaaa"), "aaa");
}

TEST(LegacyNgramMapK, NeverProposesMoreThanWasAcceptedLastAfterTheNgram) {
  const std::string name = "ngram-map-k?legacy=1,n=2,m=3,min_hits=5";
  Rounds rounds(name, "xabcdeab");
  EXPECT_EQ(shown(rounds.proposal()), "cde") << "ab at 1 = L - n - m - 1, found once: min_hits has no effect";
  EXPECT_EQ(rounds.then("cx"), "") << "c was accepted";
  EXPECT_EQ(rounds.one_by_one("ab"), "c") << "one token, as was accepted";
  EXPECT_EQ(rounds.one_by_one("yab"), "") << "none was accepted, so ab is silent from now on";
  EXPECT_EQ(rounds.one_by_one("cdeyab"), "");
}

TEST(LegacyNgramMapK, NeverFindsThePlacesAroundTheFirstRound) {
  Rounds rounds("ngram-map-k?legacy=1,n=2,m=3", "xabcdeab");
  rounds.proposal();
  EXPECT_EQ(rounds.one_by_one("qrstuvwde"), "") << "de at 4 lies between L - n - m = 2 and L = 7 of the first round";
  EXPECT_EQ(rounds.one_by_one("xyrs"), "tuv") << "rs at 9 lies behind";
}

TEST(LegacyNgramMapK4v, ProposesWhatFollowedWhereItLookedAndNotTheMajority) {
  Rounds rounds("ngram-map-k4v?legacy=1,n=1,m=1", "xabababacqa");
  EXPECT_EQ(shown(rounds.proposal()), "c") << "a at 7 = L - n - m - 1: c; b 3, c 1, so b decides";
  EXPECT_EQ(rounds.then("cq"), "");
  EXPECT_EQ(rounds.then("a"), "") << "a at 7 again, by the table; c is counted twice: b 3, c 2";
}

TEST(LegacyNgramMapK4v, NeedsMinHitsRoundsAndNotOccurrences) {
  Rounds rounds("ngram-map-k4v?legacy=1,n=1,m=1,min_hits=2", "xababababqqqa");
  EXPECT_EQ(shown(rounds.proposal()), "") << "a occurred four times, but is found for the first time";
  EXPECT_EQ(rounds.one_by_one("qa"), "b");
}

TEST(LegacyNgramMod, LearnsLateAndForgetsAfterThreeBadProposals) {
  const std::string name = "ngram-mod?legacy=1,n=2,m=3,bits=10";
  Rounds rounds(name, "abcdeab");
  EXPECT_EQ(shown(rounds.proposal()), "cde");
  EXPECT_EQ(rounds.one_by_one("dab"), "cde") << "none of the first was accepted";
  EXPECT_EQ(rounds.one_by_one("dab"), "cde");
  EXPECT_EQ(rounds.one_by_one("dab"), "") << "nor of the next two: the table is empty, and 16 tokens are not 33";

  Rounds half("ngram-mod?legacy=1,n=2,m=2,bits=10", "abcdeab");
  EXPECT_EQ(shown(half.proposal()), "cd");
  for (int i = 0; i < 3; ++i) {
    half.then("cx");
    EXPECT_EQ(half.one_by_one("ab"), "cd") << "half is enough";
  }

  Text text = {0, 1, 2, 3, 4, 0, 1};  // 0 1 2 3 4 0 is learned before the first round: 4 n-grams
  Rounds lag(name, text);
  EXPECT_EQ(lag.proposal(), (Text{2, 3, 4}));
  for (Token token = 100; token < 128; ++token) text.push_back(token);
  for (const bool one_more : {false, true}) {
    Text longer = text;
    if (one_more) longer.push_back(128);
    longer.insert(longer.end(), {100, 101});
    const auto draft = drafter_of(name)->open(4096, 0);
    observe_up_to_anchor(*draft, {0, 1, 2, 3, 4, 0, 1});
    draft_tokens_after(*draft, {0, 1, 2, 3, 4, 0, 1}, 3);
    observe_up_to_anchor(*draft, longer, 6);
    // 4 + 32 is not less than L = 36, but less than 37.
    EXPECT_EQ(draft_tokens_after(*draft, longer, 3), one_more ? (Text{102, 103, 104}) : Text{});
  }
}

TEST(LegacyNgramMod, EmptiesATableThatIsMoreThanAQuarterFullAndLearnsNothingAgain) {
  EXPECT_EQ(first("ngram-mod?legacy=1,n=1,m=2,bits=4", "abcdefa"), "") << "5 of 16 slots: a to e";
  EXPECT_EQ(first("ngram-mod?legacy=1,n=1,m=2,bits=4", "abcdea"), "bc") << "4 of 16";
}

TEST(LegacyNgramCache, CountsEachRoundAsATextOfItsOwn) {
  Rounds rounds("ngram-cache?legacy=1", "abcabcab");
  EXPECT_EQ(shown(rounds.proposal()), "cabcabca") << "bcab: c; cabc: a; abca: b; and on";
  EXPECT_EQ(rounds.one_by_one("xyzwxyz"), "") << "of one token nothing is counted";
  Rounds fixed("ngram-cache", "abcabcab");
  fixed.proposal();
  EXPECT_EQ(fixed.one_by_one("xyzwxyz").substr(0, 1), "w");
  EXPECT_EQ(first("ngram-cache?legacy=1", "aaa"), "") << "the original reads out of range";
  EXPECT_EQ(first("ngram-cache?legacy=1", "aaaa"), "aaaaaaaa");
}

TEST(LegacyNgramCache, LetsTheLookupFileDecideAfterOneTokenToo) {
  const test::Folder folder;
  // q b: z, once. After b: y twice, z once.
  const std::string file = file_of(folder, {'q' - 'a', 'b' - 'a', -1, -1, 1, 'z' - 'a', 1}).string();
  EXPECT_EQ(first("ngram-cache:" + file + "?m=1", "bydbyebzfqb"), "y") << "67 percent";
  EXPECT_EQ(first("ngram-cache:" + file + "?legacy=1,m=1", "bydbyebzfqb"), "")
      << "z has 100 to 2, but a third of the counts; in the file it is alone, but once";
}

TEST(LegacySuffix, DividesByAllOccurrencesAndRaisesItsLeastProbability) {
  Rounds rounds("suffix?legacy=1,depth=8,m=1", "abacada");
  EXPECT_EQ(shown(rounds.proposal()), "b") << "a: b, c, d and the end, a quarter each";
  EXPECT_EQ(rounds.one_by_one("ea"), "b") << "a fifth; none of the first was accepted";
  EXPECT_EQ(rounds.one_by_one("fa"), "b") << "a sixth; nor of the second";
  EXPECT_EQ(rounds.one_by_one("ga"), "") << "a seventh, now less than 0.2";
}

TEST(LegacySuffix, TakesTheCandidateOfACorpusOfOneTextWhenItIsLonger) {
  const test::Folder folder;
  const std::string file = file_of(folder, text_of("abcde")).string();
  EXPECT_EQ(first("suffix?legacy=1,offset=8", "xyab"), "");
  EXPECT_EQ(first("suffix:" + file + "?legacy=1,offset=8", "xyab"), "cde");
  EXPECT_EQ(first("suffix:" + file + "?legacy=1,offset=8", "abzxyuab"), "zxyuab") << "6 tokens, though p is one half";
  file_of(folder, {1, -1, 2});
  try {
    drafter_of("suffix:" + file + "?legacy=1");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(file + ": has -1 between texts"));
  }
}

}  // namespace
}  // namespace draftproof::legacy_test
