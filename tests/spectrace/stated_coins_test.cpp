// SPDX-License-Identifier: MIT
// Random numbers that a trace states, held to keys and intervals without any replay.
#include "oracle/spectrace/stated_coins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace draftproof::spectrace::stated_coins_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t total = Distribution::total;

/// The coins of one sequence, whose text ends at position 3.
struct Coins {
  explicit Coins(const std::string& generator = our_generator) : header(some_header(generator)) {
    coins.open(sequence);
    sequence.decided_end = 4;
  }
  static Header some_header(const std::string& generator) {
    Header header;
    header.total = total;
    header.generator = generator;
    header.seed = 3;
    return header;
  }
  static SequenceEvent some_sequence() {
    SequenceEvent declared;
    declared.prompt = {1, 2, 3};
    return declared;
  }
  /// States the coin of an acceptance at position 3, as its key gives it, plus `more`.
  void state(std::uint64_t more = 0) {
    const std::uint64_t own = PhiloxSource(3).below({0, 3, Purpose::accept}, total);
    coins.expect_coin(sequence, 3, Purpose::accept, total, own + more, findings);
  }
  std::string check() const { return report.findings.empty() ? "" : report.findings[0].check; }

  Header header;
  Games games{6, 0, 0, {}};
  TraceReport report;
  Findings findings{report, {}};
  OpenSequence sequence{some_sequence(), findings};
  StatedCoins coins{header, games, report};
};

TEST(StatedCoins, ACoinThatIsNotThatOfItsKeyIsAFinding) {
  Coins right;
  right.state();
  EXPECT_EQ(right.check(), "");
  EXPECT_EQ(right.report.examined.coins, 1);
  Coins wrong;
  wrong.state(1);
  EXPECT_EQ(wrong.check(), "coin");
}

TEST(StatedCoins, ACoinOutsideTheIntervalOfItsTokenIsAFinding) {
  Coins coins;
  coins.coins.expect_interval("bonus", {4, 10, total, 10, 5, {}, {}}, coins.findings);
  coins.coins.expect_interval("bonus", {4, 14, total, 10, 5, {}, {}}, coins.findings);
  EXPECT_EQ(coins.check(), "");
  coins.coins.expect_interval("bonus", {4, 15, total, 10, 5, {}, {}}, coins.findings);
  EXPECT_EQ(coins.check(), "bonus");
}

TEST(StatedCoins, OnlyATokenWithAllTheWeightNeedsNoCoin) {
  Coins coins;
  coins.coins.expect_interval("bonus", {4, {}, total, 0, total, {}, {}}, coins.findings);
  EXPECT_EQ(coins.check(), "");
  coins.coins.expect_interval("bonus", {4, {}, total, 0, total - 1, {}, {}}, coins.findings);
  EXPECT_EQ(coins.check(), "bonus");
}

TEST(StatedCoins, TheKeysOfARoundAreThoseOfItsCoinsAndMayHoldMoreDraftsThanThese) {
  Coins coins;
  coins.state();
  RngPositions keys;
  keys.add(Purpose::accept, 3);
  keys.add(Purpose::draft, 5);
  coins.coins.expect_keys(keys, AcceptanceRule::rejection, coins.findings);
  EXPECT_EQ(coins.check(), "");
  coins.coins.begin_round();
  coins.coins.expect_keys(keys, AcceptanceRule::rejection, coins.findings);
  EXPECT_EQ(coins.check(), "keys");
}

TEST(StatedCoins, AKeyWhoseCoinIsNotStatedIsNotCompared) {
  Coins coins;
  RngPositions keys;
  keys.add(Purpose::accept, 3);
  coins.coins.draws_unknown(Purpose::accept);
  coins.coins.expect_keys(keys, AcceptanceRule::rejection, coins.findings);
  EXPECT_EQ(coins.check(), "");
}

TEST(StatedCoins, ACoinOfAnotherGeneratorIsBetOnAndTheReportSaysSo) {
  Coins coins("mt19937");
  coins.state(1);
  EXPECT_EQ(coins.check(), "");
  EXPECT_THAT(coins.report.missing, ElementsAre(HasSubstr("coins of 'mt19937' cannot be computed again")));
  ASSERT_EQ(coins.games.others().size(), 1U);
  EXPECT_EQ(coins.games.others()[0].name, "coins");
}

TEST(StatedCoins, ACoinBehindTheEndOfTheTextIsNoEvidence) {
  Coins coins("mt19937");
  coins.coins.bet_on_coin(coins.sequence, 4, Stream::accept, 0.5);
  EXPECT_TRUE(coins.games.others().empty());
  coins.coins.bet_on_coin(coins.sequence, 3, Stream::accept, 0.5);
  EXPECT_EQ(coins.games.others().size(), 1U);
}

TEST(StatedCoins, ASecondSequenceOfOneKeyDrawsFreshNumbersBehindTheFirst) {
  Coins coins;
  coins.sequence.text = {1, 2, 3, 4, 5};
  OpenSequence meanwhile(Coins::some_sequence(), coins.findings);
  coins.coins.open(meanwhile);
  EXPECT_FALSE(meanwhile.fresh(1000));
  coins.coins.close(coins.sequence);
  OpenSequence later(Coins::some_sequence(), coins.findings);
  coins.coins.open(later);
  EXPECT_FALSE(later.fresh(4));
  EXPECT_TRUE(later.fresh(5));
}

TEST(StatedCoins, UnderMatchingAKnownCoinSaysWhichTokenPlainDecodingEmits) {
  Coins coins;
  const std::vector<Token> tokens = {1, 4};
  const std::vector<std::uint64_t> weights = {total / 2, total / 2};
  const Distribution p = Distribution::exact(tokens, weights);
  EXPECT_FALSE(coins.coins.token_of(p, coins.sequence, 3)) << "another rule draws otherwise";
  coins.sequence.declared.rule.kind = AcceptanceRule::matching;
  const std::uint64_t coin = PhiloxSource(3).below({0, 3, Purpose::target}, total);
  EXPECT_EQ(coins.coins.token_of(p, coins.sequence, 3), coin < total / 2 ? 1 : 4);
}

}  // namespace
}  // namespace draftproof::spectrace::stated_coins_test
