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
#include "tools/hash_subject.h"

namespace draftproof {
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
  while (u >= weights[static_cast<std::size_t>(token)]) u -= weights[static_cast<std::size_t>(token++)];
  return token;
}

TEST(HasExactLaw, AcceptsTheLawAndNothingBesideIt) {
  const auto sampler = [](Chance& chance) {
    Coins coins(chance);
    return draw(coins, {1, 0, 3});
  };
  EXPECT_THAT(sampler, HasExactLaw(Weights{1, 0, 3}));
  EXPECT_THAT(sampler, HasExactLaw(Weights{2, 0, 6, 0}));
  EXPECT_THAT(sampler, Not(HasExactLaw(Weights{1, 0, 2})));
  EXPECT_THAT(sampler, Not(HasExactLaw(Weights{1, 1, 3})));
  EXPECT_THAT(sampler, Not(HasExactLaw(Weights{1000000, 0, 3000001}))) << "no tolerance";
  EXPECT_EQ(explanation(sampler, HasExactLaw(Weights{1, 0, 1})),
            "whose law over 4 paths is P(0) = 1/4, P(2) = 3/4: P(0) is 1/4 where it should be 1/2; "
            "total variation 1/4");
  EXPECT_EQ(explanation(sampler, HasExactLaw(Weights{1, 0, 3})), "whose law over 4 paths is P(0) = 1/4, P(2) = 3/4");
}

TEST(HasExactLaw, TakesDistributionsAndJointLaws) {
  const std::vector<Token> tokens{3, 5};
  const std::vector<std::uint64_t> weights{Distribution::total / 4, 3 * (Distribution::total / 4)};
  const Distribution p = Distribution::exact(tokens, weights);
  const auto one = [&](Chance& chance) { return p.tokens()[chance.pick({0, 1, Purpose::target}, p.weights())]; };
  EXPECT_THAT(one, HasExactLaw(p));
  EXPECT_THAT(one, Not(HasExactLaw(Distribution::point(5))));
  // Two tokens by one key are not independent.
  const auto two = [&](Chance& chance) { return std::vector<Token>{one(chance), one(chance)}; };
  EXPECT_THAT(two, HasExactLaw(Law{{{3, 3}, Rational(1, 4)}, {{5, 5}, Rational(3, 4)}}));
  EXPECT_THAT(explanation(two, HasExactLaw(Law{{{3, 3}, 1}})), HasSubstr("P(3 3) is 1/4 where it should be 1"));
}

TEST(HasExactLaw, HoldsTheProductionRulesOnEveryPairOfTinyDistributions) {
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
      const auto first_token = [&](Chance& chance) {
        const Token guess = q.tokens()[chance.pick({0, 1, rule->draft_noise}, q.weights())];
        Rows rows(p);
        const Verdict verdict = rule->judge({{guess}, {q}}, rows, 0, 1, chance);
        return verdict.accepted == 1 ? guess : verdict.next;
      };
      EXPECT_THAT(first_token, HasExactLaw(p)) << rule->name;
    }
  }
  EXPECT_EQ(pairs, 200);
}

/// What the matcher throws about a sampler that has no law to hold anything to.
template <class Sampler>
std::string fault(const Sampler& sampler) {
  try {
    testing::StringMatchResultListener ignored;
    testing::ExplainMatchResult(Not(HasExactLaw({1})), sampler, &ignored);
  } catch (const Error& wrong) {
    return wrong.what();
  }
  return "";
}

TEST(HasExactLaw, IsNeitherAffirmedNorDeniedOfASamplerThatCannotBeEnumerated) {
  const auto until_it_succeeds = [](Chance& chance) {
    Coins coins(chance);
    while (coins.below(2) == 0) {
    }
    return Token{0};
  };
  EXPECT_THROW(EXPECT_THAT(until_it_succeeds, HasExactLaw({1})), Error);
  EXPECT_THROW(EXPECT_THAT(until_it_succeeds, Not(HasExactLaw({1}))), Error);
  EXPECT_THAT(fault(until_it_succeeds), AllOf(HasSubstr("cannot be enumerated"), HasSubstr("a thousand questions")));

  EXPECT_THAT(fault([](Chance& chance) { return Coins(chance).below(0); }), HasSubstr("below 0"));
  EXPECT_THAT(fault([](Chance& chance) { return Coins(chance).below(1ULL << 52); }),
              HasSubstr("below 4503599627370496; give it"));
  EXPECT_THROW(HasExactLaw({0, 0}), Error);
}

TEST(HasExactLaw, IsNotAskedOfWeightsWithoutAPositiveSum) {
  const auto picking = [](const Weights& weights) {
    return fault([&](Chance& chance) { return chance.pick({0, 0, Purpose::target}, weights); });
  };
  EXPECT_THAT(picking({0, 0}), HasSubstr("all zero"));
  EXPECT_THAT(picking({}), HasSubstr("all zero"));
  EXPECT_THAT(picking({1ULL << 63, 1ULL << 63}), HasSubstr("2^64 or more"));
  EXPECT_THAT(picking({1ULL << 63, 1ULL << 63, 2}), HasSubstr("2^64 or more"));
  EXPECT_EQ(picking({1ULL << 63, (1ULL << 63) - 1}), "");
}

TEST(HasExactLaw, IsNotAskedOfASamplerThatRemembersWhatItDid) {
  const auto remembers = HasSubstr("remember the call before");
  for (const std::uint64_t later : {0U, 1U, 3U}) {  // fewer questions, then one of another size
    int calls = 0;
    EXPECT_THAT(fault([&](Chance& chance) {
                  Coins coins(chance);
                  if (calls++ == 0) return coins.below(2) + coins.below(2);
                  return later == 0 ? 0 : coins.below(later + 1);
                }),
                remembers)
        << later;
  }
  int calls = 0;
  EXPECT_THAT(fault([&](Chance&) { return calls++ == 0 ? 0 : 1; }), remembers) << "no question at all";
  EXPECT_THAT(fault([&](Chance& chance) {
                Coins(chance).below(2);
                return calls++ % 2;
              }),
              remembers)
      << "the law would be that of the coin";
  calls = 0;
  EXPECT_THAT(fault([&](Chance& chance) {
                Coins coins(chance);
                coins.below(2);
                if (calls++ > 0) coins.below(2);
                return 0;
              }),
              remembers)
      << "more questions, and the same text";
  calls = 0;
  EXPECT_THAT(fault([&](Chance& chance) {
                return chance.pick({0, 0, Purpose::target}, calls++ == 0 ? Weights{1, 1, 1, 1} : Weights{2, 2});
              }),
              remembers)
      << "other weights of the same sum";
}

TEST(HasExactLaw, IsOfTokensAndOfNothingThatIsNone) {
  const auto coin = [](Chance& chance) { return Coins(chance).below(2) == 1; };
  EXPECT_THAT(coin, HasExactLaw({1, 1})) << "false and true";
  EXPECT_THAT([&](Chance& chance) { return coin(chance) ? 'b' : 'a'; }, Not(HasExactLaw({1, 1})));
  EXPECT_THAT([&](Chance& chance) { return std::int64_t{coin(chance)}; }, HasExactLaw({1, 1}));
  EXPECT_THAT(fault([&](Chance& chance) { return (std::uint64_t{1} << 32) + coin(chance); }),
              HasSubstr("it returns 4294967296, which is no token"));
  EXPECT_THAT(fault([&](Chance&) { return std::int64_t{-1} << 40; }), HasSubstr("-1099511627776, which is no token"));
}

TEST(HasExactLaw, TakesALawInBracesAndASamplerThatIsMutable) {
  const auto certain = [](Chance&) { return 0; };
  EXPECT_THAT(certain, HasExactLaw({1}));
  EXPECT_THAT(certain, HasExactLaw({3, 0}));
  EXPECT_THAT(certain, Not(HasExactLaw({1, 1})));
  auto with_scratch = [scratch = Weights{}](Chance& chance) mutable {
    scratch = {1, 2};
    return chance.pick({0, 0, Purpose::target}, scratch);
  };
  EXPECT_THAT(std::ref(with_scratch), HasExactLaw({1, 2}));
}

class LosslessTrace : public testing::Test {
 protected:
  LosslessTrace() {
    request.prompt = {1, 2, 1};
    request.sampling.temperature = 1;
    request.max_new_tokens = 24;
  }
  Trace run(const Rule& rule, const char* draft = "dialect") {
    Variation variation;
    variation.rule = &rule;
    variation.draft = draft;
    variation.draft_max = 3;
    SeededChance chance(7);
    return subject.run(request, variation, chance);
  }
  Request request;
  HashSubject subject{{.vocabulary = 8, .levels = 3, .seed = 5}};
  Model& target = subject.target({});
};

TEST_F(LosslessTrace, OfTheProductionLoopIs) {
  for (const Rule* const rule : {&matching, &rejection}) {
    EXPECT_THAT(run(*rule), IsLosslessUnder(target, *rule, 7));
    EXPECT_THAT(explanation(run(*rule), IsLosslessUnder(target, *rule, 7)), HasSubstr("rounds replayed"));
  }
  EXPECT_THAT(run(matching), Not(IsLosslessUnder(target, matching, 8))) << "another seed";
  EXPECT_THAT(run(rejection), Not(IsLosslessUnder(target, matching, 7))) << "another rule";
  HashSubject other{{.vocabulary = 8, .levels = 3, .seed = 6}};
  EXPECT_THAT(run(matching), Not(IsLosslessUnder(other.target({}), matching, 7))) << "another target";
}

TEST_F(LosslessTrace, OfTreesAndOfTextsThatStopBeforeTheirBudgetIs) {
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
  EXPECT_TRUE(stopped) << "with guesses beyond the end of the text";
}

TEST_F(LosslessTrace, ChangedAnywhereIsNotAndTheMessageSaysWhere) {
  const auto refused = [&](const auto& change) {
    Trace trace = run(rejection);
    change(trace);
    EXPECT_THAT(trace, Not(IsLosslessUnder(target, rejection, 7)));
    return explanation(trace, IsLosslessUnder(target, rejection, 7));
  };
  const auto in_round = [&](const auto& change) { return refused([&](Trace& trace) { change(trace.rounds.at(3)); }); };
  EXPECT_THAT(in_round([](Round& r) { r.emitted.back() ^= 1; }), HasSubstr("position"));
  EXPECT_THAT(in_round([](Round& r) { r.logits.back().low ^= 1; }), HasSubstr("logits_equal"));
  EXPECT_THAT(in_round([](Round& r) { r.targets.at(0).low ^= 1; }), HasSubstr("verdict_justified"));
  EXPECT_THAT(in_round([](Round& r) { r.proposal.tokens.at(0) ^= 1; }), HasSubstr("was not drawn from its stated q"));
  EXPECT_THAT(in_round([](Round& r) { ++r.verdict.accepted; }), HasSubstr("stand"));
  EXPECT_THAT(in_round([](Round& r) { r.cache.low ^= 1; }), HasSubstr("forgetting"));
  EXPECT_THAT(in_round([](Round& r) { ++r.accepted; }), HasSubstr("budget"));
  EXPECT_THAT(refused([](Trace& t) { t.output.back() ^= 1; }), HasSubstr("budget"));
  EXPECT_THAT(refused([](Trace& t) { ++t.statistics.drafted; }), HasSubstr("statistics"));
}

TEST_F(LosslessTrace, ThatShowsNothingIsNot) {
  EXPECT_THAT(explanation(run(matching, "none"), IsLosslessUnder(target, matching, 7)),
              HasSubstr("no guess was made"));
  Trace bare = run(matching);
  for (Round& round : bare.rounds) round.logits.clear();
  EXPECT_THAT(bare, Not(IsLosslessUnder(target, matching, 7)));
  EXPECT_THAT(explanation(bare, IsLosslessUnder(target, matching, 7)), HasSubstr("Recording::digests"));
}

/// Every guess stands, which keeps no law.
Verdict accept_all(const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
  const int size = proposal.size();
  for (int row = 0; row < size; ++row) rows.row(row);
  return {size, draftproof::draw(rows.row(size), {sequence, position + size, Purpose::target}, chance)};
}

TEST_F(LosslessTrace, ByARuleThatTheOracleHasNoAccountOfIsOnlyWhereNothingIsDrawn) {
  const Rule credulous{"credulous", "None.", Purpose::draft, accept_all};
  const Rule renamed{"renamed", "As matching.", Purpose::target,
                     [](const Proposal& proposal, TargetRows& rows, int sequence, int position, Chance& chance) {
                       return matching.judge(proposal, rows, sequence, position, chance);
                     }};
  for (const Rule* const rule : {&credulous, &renamed}) {
    const Losslessness drawn = examine(run(*rule), target, *rule, 7);
    EXPECT_FALSE(drawn.lossless);
    EXPECT_EQ(drawn.sentence, std::string("there is no account of the rule ") + rule->name);
  }
  request.sampling.temperature = 0;
  EXPECT_THAT(run(renamed), IsLosslessUnder(target, renamed, 7)) << "the best tokens are known whatever the rule";
  EXPECT_THAT(explanation(run(credulous), IsLosslessUnder(target, credulous, 7)), HasSubstr("tokens_equal"));
}

TEST_F(LosslessTrace, FromAnywhereIsRefusedWithASentence) {
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
    foreign_in("round 3: guessed", [](Trace&, Round& r) -> Token& { return r.proposal.tokens.at(0); });
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
  refused([&](Trace&, Round& r) { r.emitted.resize(room); }, "what is guessed or emitted needs");
  refused([&](Trace&, Round& r) { r.proposal.tokens.resize(room); }, "what is guessed or emitted needs");
}

TEST_F(LosslessTrace, WhoseGuessesAreNoTreeOrWhoseVerdictIsNoWayIsRefusedWithASentence) {
  const auto refused = [&](const auto& change, const std::string& why) {
    Trace trace = run(rejection);
    const auto round = std::find_if(trace.rounds.begin(), trace.rounds.end(),
                                    [](const Round& r) { return r.proposal.size() == 3; });
    ASSERT_NE(round, trace.rounds.end());
    change(*round);
    EXPECT_THAT(explanation(trace, IsLosslessUnder(target, rejection, 7)), HasSubstr(why));
    EXPECT_THAT(trace, Not(IsLosslessUnder(target, rejection, 7))) << why;
  };
  refused([](Round& r) { r.proposal.depths = {0, 1}; }, "3 guesses come with 2 depths");
  refused([](Round& r) { r.proposal.depths = {1, 2, 3}; }, "guess 0 has depth 1");
  refused([](Round& r) { r.proposal.depths = {0, 2, 1}; }, "guess 1 has depth 2");
  refused([](Round& r) { r.proposal.depths = {0, 1, -1}; }, "guess 2 has depth -1");
  refused([](Round& r) { r.proposal.drawn_from.pop_back(); }, "without the q");
  for (const int last : {-2, 3, 1 << 30}) {
    refused([&](Round& r) { r.verdict.last = last; }, ("guess " + std::to_string(last) + " is the last"));
    refused([&](Round& r) { r.verdict = {last + 1, 0, last}; }, "is no way down 3 guesses");
  }
  refused([](Round& r) { r.verdict = {2, 0, 0}; }, "2 guesses stand and guess 0 is the last of them");
}

/// Counts what it is asked.
class Counted final : public Model {
 public:
  explicit Counted(Model& model) : model_(model) {}
  int vocabulary() const override { return model_.vocabulary(); }
  int context() const override { return model_.context(); }
  std::unique_ptr<Cache> new_cache(int capacity, int horizon_max) const override {
    return model_.new_cache(capacity, horizon_max);
  }
  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    ++passes;
    model_.forward(batch, cache, outputs);
  }
  long passes = 0;

 private:
  Model& model_;
};

TEST_F(LosslessTrace, IsDecodedPlainlyNoFurtherThanItGoes) {
  Trace trace = run(matching);
  Counted counted(target);
  ASSERT_TRUE(examine(trace, counted, matching, 7).lossless);
  const long as_asked = counted.passes;
  counted.passes = 0;
  trace.request.max_new_tokens = 5000;
  const Losslessness found = examine(trace, counted, matching, 7);
  EXPECT_FALSE(found.lossless);
  EXPECT_THAT(found.sentence, HasSubstr("the text ends early, at 24"));
  EXPECT_LE(counted.passes, as_asked);
}

}  // namespace
}  // namespace draftproof
