// SPDX-License-Identifier: MIT
#include "oracle/matchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "ref/acceptance/draw.h"
#include "ref/acceptance/rule.h"
#include "ref/base/error.h"
#include "zoo/zoo_subject.h"

namespace draftproof::matchers_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Weights = std::vector<std::uint64_t>;

template <class Value, class Matcher>
std::string explanation(const Value& value, const Matcher& matcher) {
  testing::StringMatchResultListener listener;
  testing::ExplainMatchResult(matcher, value, &listener);
  return listener.str();
}

Token draw(Coins& coins, const Weights& weights) {
  std::uint64_t sum = 0;
  for (const std::uint64_t weight : weights) sum += weight;
  std::uint64_t u = coins.below(sum);
  Token token = 0;
  while (u >= weights[token]) u -= weights[token++];
  return token;
}

TEST(HasExactDistribution, MatchesTheDistributionAndNoOther) {
  const auto sampler = [](RandomSource& random) {
    Coins coins(random);
    return draw(coins, {1, 0, 3});
  };
  EXPECT_THAT(sampler, HasExactDistribution(Weights{1, 0, 3}));
  EXPECT_THAT(sampler, HasExactDistribution(Weights{2, 0, 6, 0}));
  EXPECT_THAT(sampler, Not(HasExactDistribution(Weights{1, 0, 2})));
  EXPECT_THAT(sampler, Not(HasExactDistribution(Weights{1, 1, 3})));
  EXPECT_THAT(sampler, Not(HasExactDistribution(Weights{1000000, 0, 3000001}))) << "no tolerance";
  EXPECT_EQ(explanation(sampler, HasExactDistribution(Weights{1, 0, 1})),
            "whose distribution over 4 paths is P(0) = 1/4, P(2) = 3/4: P(0) is 1/4 where it should be 1/2; "
            "total variation 1/4");
  EXPECT_EQ(explanation(sampler, HasExactDistribution(Weights{1, 0, 3})),
            "whose distribution over 4 paths is P(0) = 1/4, P(2) = 3/4");
}

TEST(HasExactDistribution, TakesDistributionsAndJointDistributions) {
  const std::vector<Token> tokens{3, 5};
  const std::vector<std::uint64_t> weights{Distribution::total / 4, 3 * (Distribution::total / 4)};
  const Distribution p = Distribution::exact(tokens, weights);
  const auto one = [&](RandomSource& random) {
    return p.tokens()[random.sample_index({0, 1, Purpose::target}, p.weights())];
  };
  EXPECT_THAT(one, HasExactDistribution(p));
  EXPECT_THAT(one, Not(HasExactDistribution(Distribution::point(5))));
  // Two tokens by one key are not independent.
  const auto two = [&](RandomSource& random) { return std::vector<Token>{one(random), one(random)}; };
  EXPECT_THAT(two, HasExactDistribution(TextDistribution{{{3, 3}, Rational(1, 4)}, {{5, 5}, Rational(3, 4)}}));
  EXPECT_THAT(explanation(two, HasExactDistribution(TextDistribution{{{3, 3}, 1}})),
              HasSubstr("P(3 3) is 1/4 where it should be 1"));
}

TEST(HasExactDistribution, MatchesTheProductionRulesOnEveryPairOfTinyDistributions) {
  const std::vector<Token> tokens{0, 1, 2};
  const auto distribution = [&](int a, int b) {
    const std::array parts{a, b, 3 - a - b};
    std::vector<Token> kept;
    std::vector<std::uint64_t> weights;
    std::uint64_t left = Distribution::total;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == 0) continue;
      kept.push_back(tokens[i]);
      weights.push_back(Distribution::total / 3 * static_cast<std::uint64_t>(parts[i]));
      left -= weights.back();
    }
    weights.back() += left;
    return Distribution::exact(kept, weights);
  };
  struct Rows final : TargetRows {
    explicit Rows(const Distribution& p) : p(p) {}
    const Distribution& row(int) override { return p; }
    const Distribution& p;
  };
  int pairs = 0;
  for (const Rule* const rule : {&matching, &rejection}) {
    for (int code = 0; code < 256; ++code) {
      const std::array<int, 4> part{code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
      if (part[0] + part[1] > 3 || part[2] + part[3] > 3) continue;
      ++pairs;
      const Distribution p = distribution(part[0], part[1]);
      const Distribution q = distribution(part[2], part[3]);
      const auto first_token = [&](RandomSource& random) {
        const Token draft_token = q.tokens()[random.sample_index({0, 1, rule->draft_noise}, q.weights())];
        Rows rows(p);
        const Verdict verdict = rule->judge({{draft_token}, {q}}, rows, 0, 1, random);
        return verdict.accepted == 1 ? draft_token : verdict.next;
      };
      EXPECT_THAT(first_token, HasExactDistribution(p)) << rule->name;
    }
  }
  EXPECT_EQ(pairs, 200);
}

/// What the matcher throws about a sampler that has no distribution to compare.
template <class Sampler>
std::string fault(const Sampler& sampler) {
  try {
    testing::StringMatchResultListener ignored;
    testing::ExplainMatchResult(Not(HasExactDistribution({1})), sampler, &ignored);
  } catch (const Error& wrong) {
    return wrong.what();
  }
  return "";
}

TEST(HasExactDistribution, ThrowsForASamplerThatCannotBeEnumerated) {
  const auto until_it_succeeds = [](RandomSource& random) {
    Coins coins(random);
    while (coins.below(2) == 0) {
    }
    return Token{0};
  };
  EXPECT_THROW(EXPECT_THAT(until_it_succeeds, HasExactDistribution({1})), Error);
  EXPECT_THROW(EXPECT_THAT(until_it_succeeds, Not(HasExactDistribution({1}))), Error);
  EXPECT_THAT(fault(until_it_succeeds), AllOf(HasSubstr("cannot be enumerated"), HasSubstr("a thousand draws")));

  EXPECT_THAT(fault([](RandomSource& random) { return Coins(random).below(0); }), HasSubstr("below 0"));
  EXPECT_THAT(fault([](RandomSource& random) { return Coins(random).below(1ULL << 52); }),
              HasSubstr("below 4503599627370496; give it"));
  EXPECT_THROW(HasExactDistribution({0, 0}), Error);
}

TEST(HasExactDistribution, RefusesWeightsWithoutAPositiveSum) {
  const auto picking = [](const Weights& weights) {
    return fault([&](RandomSource& random) { return random.sample_index({0, 0, Purpose::target}, weights); });
  };
  EXPECT_THAT(picking({0, 0}), HasSubstr("all zero"));
  EXPECT_THAT(picking({}), HasSubstr("all zero"));
  EXPECT_THAT(picking({1ULL << 63, 1ULL << 63}), HasSubstr("2^64 or more"));
  EXPECT_THAT(picking({1ULL << 63, 1ULL << 63, 2}), HasSubstr("2^64 or more"));
  EXPECT_EQ(picking({1ULL << 63, (1ULL << 63) - 1}), "");
}

TEST(HasExactDistribution, RefusesASamplerThatKeepsState) {
  const auto remembers = HasSubstr("keep state between calls");
  for (const std::uint64_t later : {0U, 1U, 3U}) {  // fewer questions, then one of another size
    int calls = 0;
    EXPECT_THAT(fault([&](RandomSource& random) {
                  Coins coins(random);
                  if (calls++ == 0) return coins.below(2) + coins.below(2);
                  return later == 0 ? 0 : coins.below(later + 1);
                }),
                remembers)
        << later;
  }
  int calls = 0;
  EXPECT_THAT(fault([&](RandomSource&) { return calls++ == 0 ? 0 : 1; }), remembers) << "no question at all";
  EXPECT_THAT(fault([&](RandomSource& random) {
                Coins(random).below(2);
                return calls++ % 2;
              }),
              remembers)
      << "the distribution would be that of the coin";
  calls = 0;
  EXPECT_THAT(fault([&](RandomSource& random) {
                Coins coins(random);
                coins.below(2);
                if (calls++ > 0) coins.below(2);
                return 0;
              }),
              remembers)
      << "more questions, and the same text";
  calls = 0;
  EXPECT_THAT(fault([&](RandomSource& random) {
                return random.sample_index({0, 0, Purpose::target}, calls++ == 0 ? Weights{1, 1, 1, 1} : Weights{2, 2});
              }),
              remembers)
      << "other weights of the same sum";
}

TEST(HasExactDistribution, RefusesValuesThatAreNotTokens) {
  const auto coin = [](RandomSource& random) { return Coins(random).below(2) == 1; };
  EXPECT_THAT(coin, HasExactDistribution({1, 1})) << "false and true";
  EXPECT_THAT([&](RandomSource& random) { return coin(random) ? 'b' : 'a'; }, Not(HasExactDistribution({1, 1})));
  EXPECT_THAT([&](RandomSource& random) { return std::int64_t{coin(random)}; }, HasExactDistribution({1, 1}));
  EXPECT_THAT(fault([&](RandomSource& random) { return (std::uint64_t{1} << 32) + coin(random); }),
              HasSubstr("it returns 4294967296, which is not a token"));
  EXPECT_THAT(fault([&](RandomSource&) { return std::int64_t{-1} << 40; }),
              HasSubstr("-1099511627776, which is not a token"));
}

TEST(HasExactDistribution, TakesWeightsInBracesAndAMutableSampler) {
  const auto certain = [](RandomSource&) { return 0; };
  EXPECT_THAT(certain, HasExactDistribution({1}));
  EXPECT_THAT(certain, HasExactDistribution({3, 0}));
  EXPECT_THAT(certain, Not(HasExactDistribution({1, 1})));
  auto with_scratch = [scratch = Weights{}](RandomSource& random) mutable {
    scratch = {1, 2};
    return random.sample_index({0, 0, Purpose::target}, scratch);
  };
  EXPECT_THAT(std::ref(with_scratch), HasExactDistribution({1, 2}));
}

class LosslessTrace : public testing::Test {
 protected:
  LosslessTrace() {
    request.prompt = {1, 2, 1};
    request.sampling.temperature = 1;
    request.max_new_tokens = 24;
  }
  Trace run(const Rule& rule, const char* draft = "perturbed") {
    Variation variation;
    variation.rule = &rule;
    variation.draft = draft;
    variation.draft_max = 3;
    PhiloxSource random(7);
    return subject.run(request, variation, random);
  }
  Request request;
  zoo::ZooSubject subject{{.vocabulary = 8, .levels = 3, .seed = 5}};
  Model& target = subject.target({});
};

TEST_F(LosslessTrace, OfTheProductionLoopIsLossless) {
  for (const Rule* const rule : {&matching, &rejection}) {
    EXPECT_THAT(run(*rule), IsLosslessUnder(target, *rule, 7));
    EXPECT_THAT(explanation(run(*rule), IsLosslessUnder(target, *rule, 7)), HasSubstr("rounds replayed"));
  }
  EXPECT_THAT(run(matching), Not(IsLosslessUnder(target, matching, 8))) << "another seed";
  EXPECT_THAT(run(rejection), Not(IsLosslessUnder(target, matching, 7))) << "another rule";
  zoo::ZooSubject other{{.vocabulary = 8, .levels = 3, .seed = 6}};
  EXPECT_THAT(run(matching), Not(IsLosslessUnder(other.target({}), matching, 7))) << "another target";
}

TEST_F(LosslessTrace, OfTreesAndOfTextsThatStopEarlyIsLossless) {
  bool trees = false;
  bool stopped = false;
  for (const Rule* const rule : {&matching, &rejection}) {
    for (Token stop = 0; stop < target.vocabulary(); ++stop) {
      request.stops = {stop};
      const Trace trace = run(*rule, "scripted:~<**/*<-<-");
      EXPECT_THAT(trace, IsLosslessUnder(target, *rule, 7)) << rule->name << ", stop " << stop;
      const Round& last = trace.rounds.back();
      trees = trees || std::any_of(trace.rounds.begin(), trace.rounds.end(),
                                   [](const Round& round) { return !round.proposal.is_chain(); });
      stopped = stopped || (trace.finish == Finish::stop && last.proposal.size() > 1 && last.emitted.size() == 1);
    }
  }
  EXPECT_TRUE(trees);
  EXPECT_TRUE(stopped) << "with draft tokens beyond the end of the text";
}

TEST_F(LosslessTrace, ChangedAnywhereIsRefusedNamingThePlace) {
  const auto refused = [&](const auto& change) {
    Trace trace = run(rejection);
    change(trace);
    EXPECT_THAT(trace, Not(IsLosslessUnder(target, rejection, 7)));
    return explanation(trace, IsLosslessUnder(target, rejection, 7));
  };
  const auto in_round = [&](const auto& change) { return refused([&](Trace& trace) { change(trace.rounds.at(3)); }); };
  EXPECT_THAT(in_round([](Round& r) { r.emitted.back() ^= 1; }), HasSubstr("position"));
  EXPECT_THAT(in_round([](Round& r) { r.logits.back().low ^= 1; }), HasSubstr("logits_equal"));
  EXPECT_THAT(in_round([](Round& r) { r.targets.at(0).low ^= 1; }), HasSubstr("acceptance_correct"));
  EXPECT_THAT(in_round([](Round& r) { r.proposal.tokens.at(0) ^= 1; }), HasSubstr("was not drawn from its stated q"));
  EXPECT_THAT(in_round([](Round& r) { ++r.verdict.accepted; }), HasSubstr("draft tokens are accepted"));
  EXPECT_THAT(in_round([](Round& r) { r.cache.low ^= 1; }), HasSubstr("cache_rollback"));
  EXPECT_THAT(in_round([](Round& r) { ++r.accepted; }), HasSubstr("termination_and_counters"));
  EXPECT_THAT(refused([](Trace& t) { t.output.back() ^= 1; }), HasSubstr("termination_and_counters"));
  EXPECT_THAT(refused([](Trace& t) { ++t.statistics.drafted; }), HasSubstr("statistics"));
}

TEST_F(LosslessTrace, ThatTestsNothingIsRefused) {
  EXPECT_THAT(explanation(run(matching, "none"), IsLosslessUnder(target, matching, 7)),
              HasSubstr("nothing was drafted"));
  Trace bare = run(matching);
  for (Round& round : bare.rounds) round.logits.clear();
  EXPECT_THAT(bare, Not(IsLosslessUnder(target, matching, 7)));
  EXPECT_THAT(explanation(bare, IsLosslessUnder(target, matching, 7)), HasSubstr("Recording::digests"));
}

/// Accepts every draft token, which does not preserve the distribution.
Verdict accept_all(const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
  const int size = proposal.size();
  for (int row = 0; row < size; ++row) rows.row(row);
  return {size, draftproof::draw(rows.row(size), {sequence, position + size, Purpose::target}, random)};
}

TEST_F(LosslessTrace, UnderAnUnknownRuleIsLosslessOnlyWhereNothingIsDrawn) {
  const Rule credulous{"credulous", "None.", Purpose::draft, accept_all};
  const Rule renamed{"renamed", "As matching.", Purpose::target,
                     [](const Proposal& proposal, TargetRows& rows, int sequence, int position, RandomSource& random) {
                       return matching.judge(proposal, rows, sequence, position, random);
                     }};
  for (const Rule* const rule : {&credulous, &renamed}) {
    const Losslessness drawn = examine(run(*rule), target, *rule, 7);
    EXPECT_FALSE(drawn.lossless);
    EXPECT_EQ(drawn.message, "the rule " + std::string(rule->name) + " cannot be replayed");
  }
  request.sampling.temperature = 0;
  EXPECT_THAT(run(renamed), IsLosslessUnder(target, renamed, 7)) << "the most likely tokens do not depend on the rule";
  EXPECT_THAT(explanation(run(credulous), IsLosslessUnder(target, credulous, 7)), HasSubstr("tokens_equal"));
}

TEST_F(LosslessTrace, ThatIsImpossibleIsRefusedWithAMessage) {
  const auto refused = [&](const auto& change, const std::string& why) {
    Trace trace = run(rejection);
    change(trace, trace.rounds.at(3));
    EXPECT_THAT(explanation(trace, IsLosslessUnder(target, rejection, 7)), HasSubstr(why));
    EXPECT_THAT(trace, Not(IsLosslessUnder(target, rejection, 7))) << why;
  };
  for (const Token foreign : {Token{8}, Token{5000}, Token{-1}}) {
    const std::string name = "token " + std::to_string(foreign) + " lies outside the target's vocabulary of 8";
    const auto foreign_in = [&](const char* where, const auto& change) {
      refused([&](Trace& t, Round& r) { change(t, r) = foreign; }, where + (" " + name));
    };
    foreign_in("prompt", [](Trace& t, Round&) -> Token& { return t.request.prompt.at(1); });
    foreign_in("output", [](Trace& t, Round&) -> Token& { return t.output.back(); });
    foreign_in("round 3: drafted", [](Trace&, Round& r) -> Token& { return r.proposal.tokens.at(0); });
    foreign_in("round 3: emitted", [](Trace&, Round& r) -> Token& { return r.emitted.back(); });
    foreign_in("round 3: the verdict's", [](Trace&, Round& r) -> Token& { return r.verdict.next; });
  }
  refused([](Trace& t, Round&) { t.request.prompt.clear(); }, "the prompt is empty");
  refused([](Trace& t, Round&) { t.request.max_new_tokens = -1; }, "negative");

  const int context = target.context();
  const auto room = static_cast<std::size_t>(context);
  const std::string wide = std::to_string(room + 3) + " positions, the target has " + std::to_string(room);
  refused([&](Trace& t, Round&) { t.request.max_new_tokens = context; }, ("the request needs " + wide));
  refused([&](Trace& t, Round&) { t.output.resize(room); }, ("the output needs " + wide));
  refused([&](Trace&, Round& r) { r.emitted.resize(room); }, "the drafted or emitted text needs");
  refused([&](Trace&, Round& r) { r.proposal.tokens.resize(room); }, "the drafted or emitted text needs");
}

TEST_F(LosslessTrace, WithoutAValidTreeOrPathIsRefusedWithAMessage) {
  const auto refused = [&](const auto& change, const std::string& why) {
    Trace trace = run(rejection);
    const auto round =
        std::find_if(trace.rounds.begin(), trace.rounds.end(), [](const Round& r) { return r.proposal.size() == 3; });
    ASSERT_NE(round, trace.rounds.end());
    change(*round);
    EXPECT_THAT(explanation(trace, IsLosslessUnder(target, rejection, 7)), HasSubstr(why));
    EXPECT_THAT(trace, Not(IsLosslessUnder(target, rejection, 7))) << why;
  };
  refused([](Round& r) { r.proposal.depths = {0, 1}; }, "3 draft tokens come with 2 depths");
  refused([](Round& r) { r.proposal.depths = {1, 2, 3}; }, "draft token 0 has depth 1");
  refused([](Round& r) { r.proposal.depths = {0, 2, 1}; }, "draft token 1 has depth 2");
  refused([](Round& r) { r.proposal.depths = {0, 1, -1}; }, "draft token 2 has depth -1");
  refused([](Round& r) { r.proposal.drawn_from.pop_back(); }, "without the q");
  for (const int last : {-2, 3, 1 << 30}) {
    refused([&](Round& r) { r.verdict.last = last; }, ("draft token " + std::to_string(last) + ", which is no path"));
    refused([&](Round& r) { r.verdict = {last + 1, 0, last}; }, "is no path through 3 draft tokens");
  }
  refused([](Round& r) { r.verdict = {2, 0, 0}; }, "2 draft tokens are accepted, the last of them draft token 0");
}

/// Counts the rows it computes.
class Counted final : public Model {
 public:
  explicit Counted(Model& model) : model_(model) {}
  int vocabulary() const override { return model_.vocabulary(); }
  int context() const override { return model_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override {
    return model_.new_cache(capacity, max_pending_rows);
  }
  void forward(std::span<const Segment> batch, Outputs& outputs) override {
    ++passes;
    model_.forward(batch, outputs);
  }
  long passes = 0;

 private:
  Model& model_;
};

TEST_F(LosslessTrace, IsComparedWithAsManyPlainTokensAsItHas) {
  Trace trace = run(matching);
  Counted counted(target);
  ASSERT_TRUE(examine(trace, counted, matching, 7).lossless);
  const long as_asked = counted.passes;
  counted.passes = 0;
  trace.request.max_new_tokens = 5000;
  const Losslessness found = examine(trace, counted, matching, 7);
  EXPECT_FALSE(found.lossless);
  EXPECT_THAT(found.message, HasSubstr("the text ends early, after 24"));
  EXPECT_LE(counted.passes, as_asked);
}

}  // namespace
}  // namespace draftproof::matchers_test
