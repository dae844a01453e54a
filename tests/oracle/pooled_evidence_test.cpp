// SPDX-License-Identifier: MIT
// Evidence of many short texts together: of right decoders it reaches 1 / alpha no more often than promised, of wrong
// ones also where no text shows anything alone.
#include "oracle/sequential/pooled_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "oracle/sequential/e_process.h"
#include "tests/oracle/positions.h"

namespace draftproof::pooled_evidence_test {
namespace {

constexpr EProcess::Settings alone = {.vocabulary = 12, .spreads = false};
constexpr int text_tokens = 40;
constexpr double loose_alpha = 0.05;

using Weights = std::vector<std::uint64_t>;

/// Positions that are repeated in random order, as they should be and as a faulty decoder has them.
class ShortTexts {
 public:
  explicit ShortTexts(std::string_view fault = "") {
    for (int index = 0; index < 50; ++index) {
      const Position position = position_of(alone.vocabulary, index);
      stakes_.push_back(std::make_unique<EProcess::Stakes>(alone, position.p, &position.q));
      PositionDistributions at = make_distributions(position, alone.vocabulary);
      std::vector<double> r = at.p;
      for (const FaultModel& model : fault_models()) {
        if (model.name == fault) model.distribution(at, r);
      }
      Weights weights(static_cast<std::size_t>(alone.vocabulary));
      for (std::size_t i = 0; i < r.size(); ++i) {
        weights[static_cast<std::size_t>(at.tokens[i])] = static_cast<std::uint64_t>(r[i] * 0x1p52);
      }
      weights_.push_back(std::move(weights));
    }
  }

  EProcess text(std::uint64_t seed) const {
    PhiloxSource random(seed);
    EProcess process(alone);
    for (int n = 0; n < text_tokens; ++n) {
      const auto at = static_cast<std::size_t>(random.below({0, n, Purpose::draft}, stakes_.size()));
      const auto token = static_cast<Token>(random.sample_index({0, n, Purpose::target}, weights_[at]));
      process.observe(*stakes_[at], stakes_[at]->place_of(token));
    }
    return process;
  }

 private:
  std::vector<std::unique_ptr<EProcess::Stakes>> stakes_;
  std::vector<Weights> weights_;
};

constexpr int campaigns = 100;
constexpr std::uint64_t texts_each = 20;
constexpr int promised = 5;  // alarms of so many campaigns at most, on average

/// Returns how many campaigns of right decoders reach 1 / alpha, where text number n has this seed.
int false_alarms(const std::function<std::uint64_t(std::uint64_t campaign, std::uint64_t n)>& seed_of) {
  const ShortTexts right;
  int alarms = 0;
  for (std::uint64_t campaign = 0; campaign < campaigns; ++campaign) {
    PooledEvidence evidence(loose_alpha);
    for (std::uint64_t n = 0; n < texts_each; ++n) {
      evidence.add(right.text(seed_of(campaign, n)).by_bet(), text_tokens);
    }
    alarms += evidence.alarm();
  }
  return alarms;
}

TEST(PooledEvidence, OfRightTextsRaisesNoMoreAlarmsThanPromised) {
  EXPECT_LE(false_alarms([](std::uint64_t campaign, std::uint64_t n) { return 1000 * campaign + n; }), promised);
}

TEST(PooledEvidence, TheSameTestFindsTextsOfOneSeed) {
  EXPECT_GT(false_alarms([](std::uint64_t campaign, std::uint64_t) { return 1000 * campaign; }), 2 * promised);
}

TEST(PooledEvidence, TheSameTestFindsThatLargestWealthsWereMultiplied) {
  const ShortTexts right;
  int alarms = 0;
  for (std::uint64_t campaign = 0; campaign < campaigns; ++campaign) {
    double product = 1;
    for (std::uint64_t n = 0; n < texts_each; ++n) product *= right.text(1000 * campaign + n).e_value();
    alarms += product * loose_alpha >= 1;
  }
  EXPECT_GT(alarms, 2 * promised);
}

TEST(PooledEvidence, FindsFaultsThatNoTextShowsAlone) {
  int found = 0;
  for (const FaultModel& model : fault_models()) {
    const ShortTexts wrong(model.name);
    PooledEvidence evidence(1e-9);
    bool alone = false;
    for (std::uint64_t n = 0; n < 400 && !alone && !evidence.alarm(); ++n) {
      const EProcess text = wrong.text(n);
      alone = text.alarm();
      evidence.add(text.by_bet(), text_tokens);
    }
    if (!alone && evidence.alarm()) ++found;
  }
  EXPECT_GE(found, 10) << "of " << fault_models().size();
}

TEST(PooledEvidence, NamesTheFault) {
  const ShortTexts wrong(fault_models().front().name);
  PooledEvidence evidence(1e-9);
  for (std::uint64_t n = 0; n < 400 && !evidence.alarm(); ++n) evidence.add(wrong.text(n).by_bet(), text_tokens);
  EXPECT_TRUE(evidence.alarm());
  EXPECT_EQ(evidence.suspect(), fault_models().front().name);
}

TEST(PooledEvidence, ATokenThatCannotBeIsProof) {
  PooledEvidence evidence(1e-9);
  EProcess process(alone);
  process.observe(Distribution::point(3), nullptr, 4);
  evidence.add(process.by_bet(), 1);
  EXPECT_TRUE(evidence.alarm());
  EXPECT_TRUE(std::isinf(evidence.e_value()));
}

TEST(PooledEvidence, TheCurveHasFewPointsOfWhichTheLastIsTheEnd) {
  for (const int texts : {1, 512, 513, 1500}) {
    PooledEvidence evidence(1e-9);
    for (int text = 0; text < texts; ++text) evidence.add(std::vector<double>{1, 1}, 2);
    const auto curve = evidence.curve();
    EXPECT_LE(curve.size(), 512U);
    EXPECT_GE(curve.size(), static_cast<std::size_t>(std::min(texts, 256)));
    EXPECT_EQ(curve.back(), (std::pair<long, double>(2 * texts, 1)));
  }
}

TEST(PooledEvidence, OfNoTextIsNone) {
  const PooledEvidence evidence(1e-9);
  EXPECT_EQ(evidence.e_value(), 1);
  EXPECT_FALSE(evidence.alarm());
  EXPECT_EQ(evidence.suspect(), "none");
  EXPECT_EQ(evidence.smallest_deviation(), 1);
}

}  // namespace
}  // namespace draftproof::pooled_evidence_test
