// SPDX-License-Identifier: MIT
// Evidence from coins of right generators of many kinds, with an alarm in one of 1 / alpha cases at most, and of wrong
// uses of generators. Slow: a million coins of every kind.
#include "oracle/sequential/coin_evidence.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

#include "tests/oracle/coin_faults.h"
#include "tests/oracle/float_engine.h"

namespace draftproof::coin_evidence_test {
namespace {

using testing::HasSubstr;
using Generator = std::function<double(Bits&)>;

double of_53_bits(Bits& bits) { return static_cast<double>(bits() >> 11) * 0x1p-53; }

/// Returns the coin as another program would write it and we read it.
double written(const char* format, double coin) {
  return std::strtod(fmt::format(fmt::runtime(format), coin).c_str(), nullptr);
}

/// Generators of right engines.
std::vector<std::pair<std::string, Generator>> generators() {
  return {
      {"24 bits", coin_of_24_bits},
      {"23 bits", [](Bits& bits) { return static_cast<double>(bits() >> 41) * 0x1p-23; }},
      {"20 bits", [](Bits& bits) { return static_cast<double>(bits() >> 44) * 0x1p-20; }},
      {"32 bits", [](Bits& bits) { return static_cast<double>(bits() >> 32) * 0x1p-32; }},
      {"32 bits as a float", [](Bits& bits) { return double{static_cast<float>(bits() >> 32) * 0x1p-32F}; }},
      {"53 bits", of_53_bits},
      {"c / (2^31 - 1)", [](Bits& bits) { return static_cast<double>(bits() >> 33) / 2147483647; }},
      {"24 bits as the shortest decimal of a float",
       [](Bits& bits) {
         return std::strtod(fmt::format("{}", static_cast<float>(coin_of_24_bits(bits))).c_str(), nullptr);
       }},
      {"24 bits with 9 digits", [](Bits& bits) { return written("{:.9g}", coin_of_24_bits(bits)); }},
      {"24 bits with 10 digits", [](Bits& bits) { return written("{:.10f}", coin_of_24_bits(bits)); }},
      {"23 bits with 8 digits",
       [](Bits& bits) { return written("{:.8f}", static_cast<double>(bits() >> 41) * 0x1p-23); }},
      {"53 bits with 6 digits", [](Bits& bits) { return written("{:.6f}", of_53_bits(bits)); }},
  };
}

/// Returns the evidence of `count` coins, in the order of streams of a round: 3 draft tokens, their acceptance, the
/// target's draw.
CoinEvidence fed(const Generator& generator, std::uint64_t seed, long count, double alpha = 1e-9) {
  CoinEvidence evidence(alpha);
  Bits bits(seed);
  for (long n = 0; n < count; ++n) {
    const long place = n % 7;
    evidence.observe(place < 3 ? Stream::draft : place < 6 ? Stream::accept : Stream::target, generator(bits));
  }
  return evidence;
}

TEST(CoinEvidence, RaisesNoAlarmForRightGenerators) {
  int alarms = 0;
  for (const auto& [name, generator] : generators()) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const CoinEvidence evidence = fed(generator, seed, 1000);
      EXPECT_FALSE(evidence.alarm()) << name << ": " << evidence.describe();
      alarms += evidence.e_value() >= 20;
    }
  }
  EXPECT_LE(alarms, 12) << "of 240 at 0.05";
}

/// Their 24 bits repeat; the 8 digits would be enough for 26.
TEST(CoinEvidence, ShortestDecimalsOfFloatsShowNoMoreBitsThanFloatsHave) {
  for (const auto& [name, generator] : generators()) {
    if (!name.ends_with("shortest decimal of a float")) continue;
    const CoinEvidence evidence = fed(generator, 7, 100000);
    EXPECT_FALSE(evidence.alarm()) << evidence.describe();
    EXPECT_THAT(evidence.describe(), testing::Not(HasSubstr("no coin was repeated")));
  }
}

TEST(CoinEvidenceSlow, AMillionCoinsOfEveryRightGeneratorRaiseNoAlarm) {
  for (const auto& [name, generator] : generators()) {
    const std::clock_t start = std::clock();
    const CoinEvidence evidence = fed(generator, 5, 1000000);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    fmt::print("{}: {}; {:.2f} us a coin\n", name, evidence.describe(), seconds);
    EXPECT_LT(evidence.e_value(), 20) << name;
  }
}

TEST(CoinEvidence, FindsCoinsThatDependOnEachOther) {
  for (const CoinFault& fault : coin_faults()) {
    CoinEvidence evidence(1e-9);
    Bits bits(1);
    std::vector<double> before;
    while (before.size() < 1000 && !evidence.alarm()) {
      before.push_back(fault.coin(bits, before));
      evidence.observe(Stream::accept, before.back());
    }
    EXPECT_TRUE(evidence.alarm()) << fault.name << ": " << evidence.describe();
    EXPECT_THAT(evidence.suspect(), HasSubstr(fault.looks_like)) << fault.name;
  }
}

TEST(CoinEvidence, FindsOneValueInTwoDecisionsAmongRightCoins) {
  CoinEvidence evidence(1e-9);
  Bits bits(3);
  double kept = 0;
  for (int n = 0; n < 2000; ++n) {
    const double coin = n % 200 == 150 ? kept : of_53_bits(bits);
    if (n % 200 == 20) kept = coin;
    evidence.observe(n % 2 ? Stream::accept : Stream::target, coin);
  }
  EXPECT_TRUE(evidence.alarm());
  EXPECT_EQ(evidence.suspect(), "one coin in two decisions");
  EXPECT_THAT(evidence.describe(), HasSubstr("10 repeated, "));
}

TEST(CoinEvidence, RepeatsExplainedByTheResolutionAreNoEvidence) {
  CoinEvidence coarse(1e-9);
  CoinEvidence fine(1e-9, 53);
  Bits bits(3);
  for (int n = 0; n < 20000; ++n) {
    const double coin = static_cast<double>(bits() >> 52) * 0x1p-12;
    coarse.observe(Stream::accept, coin);
    fine.observe(Stream::accept, n == 0 ? 0x1.fffffffffffffp-1 : coin);
  }
  EXPECT_FALSE(coarse.alarm()) << coarse.describe();
  EXPECT_TRUE(fine.alarm()) << "an engine that states 53 bits and has 12 repeats coins";
}

TEST(CoinEvidence, AStatedCoarseGridRaisesNoAlarm) {
  for (const bool said : {false, true}) {
    CoinEvidence evidence(1e-9);
    Bits bits(3);
    for (int n = 0; n < 20000; ++n) {
      evidence.observe(Stream::accept, static_cast<double>(bits() % 25) / 25, said ? 1.0 / 25 : 0);
    }
    EXPECT_NE(evidence.alarm(), said) << evidence.describe();
  }
}

TEST(CoinEvidence, StatedBitsSharpenTheRepeatTest) {
  const auto with_one_pair = [](int bits_stated) {
    CoinEvidence evidence(1e-9, bits_stated);
    Bits bits(3);
    double first = 0;
    for (int n = 0; n < 100; ++n) {
      const double coin = n == 70 ? first : of_53_bits(bits);
      if (n == 20) first = coin;
      evidence.observe(Stream::draft, coin);
    }
    return evidence.alarm();
  };
  EXPECT_TRUE(with_one_pair(53));
  EXPECT_FALSE(with_one_pair(0));
}

TEST(CoinEvidence, TheSameTestFindsACoinPassedTwice) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CoinEvidence evidence(1e-9);
    Bits bits(seed);
    for (int n = 0; n < 1000; ++n) {
      const double coin = coin_of_24_bits(bits);
      evidence.observe(Stream::accept, coin);
      evidence.observe(Stream::target, coin);
    }
    EXPECT_TRUE(evidence.alarm());
  }
}

TEST(CoinEvidence, TheSameTestFindsARepeatTestThatUnderstatesItsProbability) {
  CoinEvidence understating(1e-9, 53);
  CoinEvidence right(1e-9);
  Bits bits(1);
  for (int n = 0; n < 60000; ++n) {
    const double coin = static_cast<double>(bits() >> 35) / 536870911;  // 29 random bits in 53
    understating.observe(Stream::accept, coin);
    right.observe(Stream::accept, coin, 1.0 / 536870911);
  }
  EXPECT_TRUE(understating.alarm()) << understating.describe();
  EXPECT_FALSE(right.alarm()) << right.describe();
}

TEST(CoinEvidence, AcceptsBothEndsOfTheInterval) {
  CoinEvidence evidence(1e-9);
  for (const double coin : {0.0, 1.0, 0.5}) evidence.observe(Stream::target, coin);
  EXPECT_EQ(evidence.coins(), 3);
  EXPECT_FALSE(evidence.alarm());
  EXPECT_EQ(evidence.suspect(), "none");
}

}  // namespace
}  // namespace draftproof::coin_evidence_test
