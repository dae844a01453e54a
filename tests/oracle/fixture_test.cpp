// SPDX-License-Identifier: MIT
#include "oracle/fixtures/fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ref/acceptance/sampler.h"
#include "tests/oracle/fixture_parts.h"

namespace draftproof::fixture_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Ulps, CountTheFloatsBetweenTwo) {
  const float min = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ulps_between(1.0F, 1.0F), 0U);
  EXPECT_EQ(ulps_between(1.0F, std::nextafter(1.0F, 2.0F)), 1U);
  EXPECT_EQ(ulps_between(-0.0F, 0.0F), 1U);
  EXPECT_EQ(ulps_between(0.0F, min), 1U);
  EXPECT_EQ(ulps_between(-min, min), 3U);
  EXPECT_EQ(ulps_between(1.0F, 2.0F), 1U << 23);
  EXPECT_EQ(ulps_between(-2.0F, -1.0F), 1U << 23);
  EXPECT_EQ(ulps_between(-INFINITY, INFINITY), 2 * 0x7f800000ULL + 1);
}

TEST(Difference, BetweenAFixtureAndItselfIsEmpty) {
  const FixtureDifference same = difference(small_fixture(), small_fixture());
  EXPECT_TRUE(same.empty());
  EXPECT_EQ(same.text(), "");
  EXPECT_FALSE(same.first_token);
  ASSERT_TRUE(same.variation);
  EXPECT_EQ(same.variation->first, 0U);
}

template <class T>
std::vector<T>& values_of(Fixture& fixture, const std::string& name) {
  return const_cast<Array<T>*>(fixture.find<T>(name))->values;
}

/// Changes one value of the array; the difference must be seen there and nowhere else.
template <class T>
void expect_each_value_matters(const std::string& name) {
  const Fixture good = small_fixture();
  const std::size_t count = good.find<T>(name)->values.size();
  EXPECT_GT(count, 0U) << name;
  for (std::size_t i = 0; i < count; ++i) {
    Fixture bad = small_fixture();
    values_of<T>(bad, name)[i] += T(1);
    const FixtureDifference change = difference(good, bad);
    ASSERT_EQ(change.arrays.size(), 1U) << name << " " << i;
    EXPECT_EQ(change.arrays[0].name, name);
    EXPECT_EQ(change.arrays[0].differing, 1U);
    EXPECT_THAT(change.asked, IsEmpty());
    EXPECT_EQ(change.first_token.has_value(), name == "tokens");
  }
}

TEST(Difference, FindsEveryValueOfEveryArray) {
  expect_each_value_matters<float>("rows");
  for (const char* name : {"logits", "targets", "cache", "draft"}) expect_each_value_matters<std::uint64_t>(name);
  for (const char* name : {"rounds", "draft_tokens", "tokens", "finish"}) expect_each_value_matters<std::int32_t>(name);
  EXPECT_EQ(small_fixture().arrays.size(), 9U) << "an array that no line above names";
}

/// Changes each field of the request in turn.
struct ChangeOne {
  int wanted;
  int seen = 0;
  std::string name;
  bool now(const char* field) {
    if (seen++ != wanted) return false;
    name = field;
    return true;
  }
  void operator()(const char* field, std::string& text, const std::vector<std::string>& allowed) {
    if (now(field)) text = allowed.empty() ? text + "x" : allowed.back();
  }
  template <class T>
  void operator()(const char* field, T& number, T min, T max) {
    if (now(field)) number = number == min ? max : min;
  }
  void operator()(const char* field, std::vector<Token>& tokens, Token, Token) {
    if (now(field)) tokens.push_back(1);
  }
};

TEST(Difference, NamesEveryChangedFieldOfTheRequest) {
  for (int field = 0;; ++field) {
    Fixture other = small_fixture();
    ChangeOne change{field, 0, ""};
    visit_request(other, change);
    if (change.name.empty()) {
      EXPECT_EQ(field, 20) << "fields were added or lost";
      break;
    }
    const FixtureDifference found = difference(small_fixture(), other);
    ASSERT_EQ(found.asked.size(), 1U) << change.name;
    EXPECT_EQ(found.asked[0].first, change.name);
  }
  Fixture serial = small_fixture();
  serial.execution.verification = Verification::serial;
  EXPECT_THAT(difference(small_fixture(), serial).asked,
              ElementsAre(testing::Pair("verification", "serial, not batched")));
}

TEST(Difference, ShowsTheFirstIndexBothValuesAndUlps) {
  Fixture bad = small_fixture();
  values_of<float>(bad, "rows")[4] = std::nextafter(4.5F, 5.0F);
  values_of<float>(bad, "rows")[8] = std::nextafter(std::nextafter(8.0F, 9.0F), 9.0F);
  values_of<std::uint64_t>(bad, "logits")[3] = 7;
  const FixtureDifference change = difference(small_fixture(), bad);
  ASSERT_EQ(change.arrays.size(), 2U);
  EXPECT_EQ(change.arrays[0].message(),
            "rows[1, 1] was 4.5 (0x40900000), is 4.5000005 (0x40900001), 1 ulp; 2 of 12 differ, by 2 ulps at most");
  EXPECT_EQ(change.arrays[1].message(),
            "logits[1] was 00000000000000010000000000000002, is 00000000000000010000000000000007; 1 of 4 differ");
  EXPECT_THAT(change.text(), HasSubstr("the text is the same"));
}

TEST(Difference, DistinguishesSignedZerosAndNaN) {
  Fixture bad = small_fixture();
  values_of<float>(bad, "rows")[0] = -0.0F;
  EXPECT_EQ(difference(small_fixture(), bad).arrays.at(0).ulps, 1U);
  const auto array = [](float value) {
    Fixture fixture;
    fixture.arrays.push_back({"rows", Array<float>{{1, 1}, {value}}});
    return fixture;
  };
  EXPECT_THAT(difference(array(NAN), array(NAN)).arrays, IsEmpty());
  EXPECT_FALSE(difference(array(NAN), array(1)).arrays.at(0).ulps);
}

TEST(Difference, StatesWhereTheTextsDifferAndHowFarDistributionsMove) {
  Fixture bad = small_fixture();
  values_of<std::int32_t>(bad, "tokens")[2] = 0;
  values_of<float>(bad, "rows")[3 * 3] = 100;  // a row after another text: nothing to compare
  FixtureDifference change = difference(small_fixture(), bad);
  EXPECT_EQ(change.first_token, 2U);
  EXPECT_EQ(change.variation->first, 0U);
  EXPECT_THAT(change.text(), HasSubstr("the text changes from token 2 on"));

  bad = small_fixture();
  values_of<float>(bad, "rows")[2 * 3] = 100;  // all of row 2 on token 0, which had next to nothing
  change = difference(small_fixture(), bad);
  EXPECT_EQ(change.variation->second, 2U);
  const Sampling sampling = small_fixture().request.sampling;
  const std::vector<Token> text{1, 2, 2, 1};
  const Distribution before = compute_distribution(std::vector<float>{6, 7, 8}, sampling, {text, {}});
  EXPECT_EQ(change.variation->first, 2 * (Distribution::total - before.weight(0)));
}

TEST(Difference, FindsLongerShorterMissingAndReshapedArrays) {
  Fixture shorter = small_fixture();
  for (FixtureArray& array : shorter.arrays) {
    if (array.name == "draft_tokens") array.content = Array<std::int32_t>{{3}, {2, 1, 2}};
  }
  EXPECT_EQ(difference(small_fixture(), shorter).arrays.at(0).message(),
            "draft_tokens[3] was 1, is absent; 0 of 3 differ; 1 more recorded");
  EXPECT_EQ(difference(shorter, small_fixture()).arrays.at(0).message(),
            "draft_tokens[3] was absent, is 1; 0 of 3 differ; 1 more found");
  Fixture longer = small_fixture();
  for (FixtureArray& array : longer.arrays) {
    if (array.name == "cache") array.content = Array<std::uint64_t>{{4, 2}, {1, 5, 2, 7, 3, 5, 4, 5}};
  }
  EXPECT_EQ(difference(small_fixture(), longer).arrays.at(0).message(),
            "cache[1] was 00000000000000020000000000000005, is 00000000000000020000000000000007; 1 of 2 differ; 2 more "
            "found");
  Fixture without = small_fixture();
  without.arrays.erase(without.arrays.begin());
  EXPECT_EQ(difference(small_fixture(), without).arrays.at(0).message(), "rows was there, is absent");
  EXPECT_EQ(difference(without, small_fixture()).arrays.at(0).message(), "rows was absent, is there");
  Fixture wider = small_fixture();
  for (FixtureArray& array : wider.arrays) {
    if (array.name == "rows") std::get<Array<float>>(array.content).shape = {3, 4};
  }
  EXPECT_EQ(difference(small_fixture(), wider).arrays.at(0).message(), "rows was shape [4, 3], is shape [3, 4]");
}

/// Returns a run of 300 tokens after a prompt of two. Four draft tokens are accepted in every round, and from token
/// `worse_from` on none is.
Fixture long_fixture(int worse_from) {
  Trace trace;
  trace.request.prompt = {1, 2};
  trace.execution.draft_max = 4;
  for (Token token = 0; token < 300; ++token) trace.output.push_back(token % 7);
  for (int at = 0; at < 300;) {
    Round round;
    round.position = 2 + at;
    round.proposal.tokens.assign(trace.output.begin() + at, trace.output.begin() + std::min(at + 4, 300));
    round.verdict.accepted = at < worse_from ? round.proposal.size() : 0;
    const int end = std::min(at + round.verdict.accepted + 1, 300);
    if (at >= worse_from) round.proposal.tokens.assign(4, 8);
    for (int i = at; i < end; ++i) {
      const auto n = static_cast<std::uint64_t>(i);
      round.emitted.push_back(trace.output[i]);
      round.logits.push_back({n, 1});
      round.targets.push_back({n, 2});
    }
    at = end;
    round.cache = {static_cast<std::uint64_t>(end), 3};
    round.draft = {static_cast<std::uint64_t>(end), 4};
    trace.rounds.push_back(round);
  }
  Fixture fixture;
  fixture.target = "models/some";
  fixture.draft = "model:models/other";
  fixture.request = trace.request;
  fixture.arrays = make_arrays(trace, {});
  return fixture;
}

constexpr int never = 300;

TEST(DraftOfAFixture, ThatBecomesWorseIsToldWithThePositionAtWhichThatBegins) {
  const FixtureDifference worse = difference(long_fixture(never), long_fixture(150));
  EXPECT_TRUE(worse.only_draft) << worse.text();
  EXPECT_TRUE(worse.drafts.slower());
  EXPECT_EQ(worse.drafts.slower_from(), "position 152, round 30, 0 of 4 draft tokens accepted");
  EXPECT_EQ(worse.drafts.accepted(), (std::array<long, 2>{240, 120}));
  EXPECT_EQ(worse.drafts.alone(), (std::array<long, 2>{120, 0}));
  EXPECT_THAT(worse.text(), HasSubstr("PERF_REGRESSION: the draft is worse in this one, from position 152"));
}

TEST(DraftOfAFixture, ThatIsAsGoodOrBetterOrALittleWorseIsNoRegression) {
  const FixtureDifference same = difference(long_fixture(150), long_fixture(150));
  EXPECT_TRUE(same.empty());
  EXPECT_FALSE(same.only_draft);
  for (const auto& [before, after] : {std::pair{150, never}, std::pair{never, never - 40}}) {
    const FixtureDifference change = difference(long_fixture(before), long_fixture(after));
    EXPECT_TRUE(change.only_draft);
    EXPECT_FALSE(change.drafts.slower()) << change.text();
    EXPECT_THAT(change.text(), testing::Not(HasSubstr("PERF_REGRESSION")));
  }
}

TEST(DraftOfAFixture, IsNotAllThatDiffersWhenAnythingTheTextFollowsFromDoes) {
  const Fixture before = long_fixture(never);
  for (const char* name : {"logits", "targets", "cache"}) {
    Fixture worse = long_fixture(150);
    values_of<std::uint64_t>(worse, name).back() ^= 1;
    EXPECT_FALSE(difference(before, worse).only_draft) << name;
  }
  Fixture after_150 = long_fixture(150);  // rounds of both end here
  values_of<std::uint64_t>(after_150, "cache")[2 * 29] ^= 1;
  EXPECT_FALSE(difference(before, after_150).only_draft);
  Fixture after_151 = long_fixture(150);  // no round of the first ends here: nothing to compare
  values_of<std::uint64_t>(after_151, "cache")[2 * 30] ^= 1;
  EXPECT_TRUE(difference(before, after_151).only_draft);
  for (const char* name : {"tokens", "finish"}) {
    Fixture worse = long_fixture(150);
    values_of<std::int32_t>(worse, name).back() ^= 1;
    EXPECT_FALSE(difference(before, worse).only_draft) << name;
  }
  Fixture other_seed = long_fixture(150);
  other_seed.seed = 1;
  EXPECT_FALSE(difference(before, other_seed).only_draft);
  Fixture other_draft = long_fixture(150);
  other_draft.draft = "ngram-simple";
  EXPECT_TRUE(difference(before, other_draft).only_draft);
}

TEST(DraftOfAFixture, IsNotComparedWhereNoneWasAskedFor) {
  Fixture without = long_fixture(0);
  without.draft = "none";
  const FixtureDifference change = difference(long_fixture(never), without);
  EXPECT_FALSE(change.only_draft);
  EXPECT_FALSE(change.drafts.slower());
  EXPECT_EQ(change.drafts.accepted(), (std::array<long, 2>{0, 0}));
}

}  // namespace
}  // namespace draftproof::fixture_test
