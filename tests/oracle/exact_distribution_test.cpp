// SPDX-License-Identifier: MIT
#include "oracle/exact/exact_distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "oracle/exact/exact_cases.h"
#include "oracle/exact/enumerate.h"
#include "oracle/plain/plain.h"
#include "ref/acceptance/bans.h"
#include "ref/acceptance/sampler.h"
#include "tests/oracle/constant_model.h"
#include "tests/oracle/told.h"
#include "zoo/loop.h"
#include "zoo/production_distribution.h"
#include "zoo/zoo_subject.h"

namespace draftproof::exact_distribution_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Emits token 0 with probability zero / (zero + one) where the target emits it with 1/2; drafts nothing.
class LoadedCoin final : public Subject {
 public:
  LoadedCoin(std::uint64_t zero, std::uint64_t one) : weights_{zero, one} {}
  Trace run_with_callback(const Request& request, const Variation&, RandomSource& random, const OnRound&) override {
    Trace trace;
    trace.finish = Finish::length;
    while (static_cast<int>(trace.output.size()) < request.max_new_tokens && trace.finish == Finish::length) {
      const int position = static_cast<int>(request.prompt.size() + trace.output.size());
      const auto token = static_cast<Token>(random.sample_index({0, position, Purpose::target}, weights_));
      trace.output.push_back(token);
      if (!request.stops.empty() && token == request.stops[0]) trace.finish = Finish::stop;
    }
    return trace;
  }
  Model& target(const Variation&) override { return target_; }
  std::string numerics(const Variation&) override { return "coin"; }

 private:
  std::uint64_t weights_[2];
  ConstantModel target_{{0, 0}};
};

ExactInput input(int max_new_tokens, std::vector<Token> stops) {
  ExactInput input;
  input.request.prompt = {0};
  input.request.sampling.temperature = 1;
  input.request.max_new_tokens = max_new_tokens;
  input.request.stops = std::move(stops);
  input.variation.rule = &rejection;
  return input;
}

TEST(CompareDistributions, AFairCoinHasDistanceZero) {
  LoadedCoin fair(1, 1);
  const ExactResult answer = compare_distributions(fair, input(3, {}));
  EXPECT_EQ(answer.distance, 0);
  EXPECT_EQ(answer.paths, 8);
  EXPECT_EQ(answer.texts, 8);
  EXPECT_EQ(answer.met[CoverageEvent::cut], 8);
}

TEST(CompareDistributions, TheDistanceIsTotalVariation) {
  LoadedCoin loaded(3, 1);
  EXPECT_EQ(compare_distributions(loaded, input(1, {})).distance, Rational(1, 4));
  // 9, 3, 3 and 1 sixteenths instead of 4 each: (5 + 1 + 1 + 3) / 16 / 2
  const ExactResult two = compare_distributions(loaded, input(2, {}));
  EXPECT_EQ(two.distance, Rational(5, 16));
  EXPECT_THAT(two.worst, ElementsAre(0, 0));
}

TEST(CompareDistributions, TextsEndAtStops) {
  LoadedCoin loaded(3, 1);
  // 0, 1 0 and 1 1 have 12, 3 and 1 sixteenths instead of 8, 4 and 4: (4 + 1 + 3) / 16 / 2
  const ExactResult answer = compare_distributions(loaded, input(2, {0}));
  EXPECT_EQ(answer.distance, Rational(1, 4));
  EXPECT_THAT(answer.worst, ElementsAre(0));
  EXPECT_EQ(answer.paths, 3);
  EXPECT_EQ(answer.texts, 3);
  EXPECT_EQ(answer.met[CoverageEvent::stopped], 2);
  EXPECT_EQ(answer.met[CoverageEvent::cut], 1);
}

/// A fair coin that is loaded after one text only.
class LoadedAfter final : public Subject {
 public:
  explicit LoadedAfter(std::vector<Token> text) : text_(std::move(text)) {}
  Trace run_with_callback(const Request& request, const Variation&, RandomSource& random, const OnRound&) override {
    Trace trace;
    trace.finish = Finish::length;
    while (static_cast<int>(trace.output.size()) < request.max_new_tokens) {
      const int position = static_cast<int>(request.prompt.size() + trace.output.size());
      const std::array<std::uint64_t, 2> weights = {trace.output == text_ ? 3U : 1U, 1};
      trace.output.push_back(static_cast<Token>(random.sample_index({0, position, Purpose::target}, weights)));
    }
    return trace;
  }
  Model& target(const Variation&) override { return target_; }
  std::string numerics(const Variation&) override { return "coin"; }

 private:
  std::vector<Token> text_;
  ConstantModel target_{{0, 0}};
};

/// What each sampler does alone, and several together in both orders.
std::vector<Sampling> samplers() {
  const Sampling dry{.temperature = 1, .dry_multiplier = 1, .dry_allowed_length = 1};
  std::vector<Sampling> list = {
      {.temperature = 2, .top_p = 0.8F, .order = llama_cpp_order},
      {.temperature = 1, .top_n_sigma = 1},
      {.temperature = 1, .typical_p = 0.5F},
      {.temperature = 1, .dynatemp_range = 0.75F},
      {.temperature = 1, .xtc_probability = 0.5F},
      dry,
  };
  for (const SamplerOrder& order : {transformers_order, llama_cpp_order}) {
    Sampling all = dry;
    all.temperature = 1.5F;
    all.top_p = 0.95F;
    all.dynatemp_range = 0.5F;
    all.xtc_probability = 0.5F;
    all.dry_breakers = {2};
    all.order = order;
    list.push_back(all);
  }
  list.push_back({.temperature = 1.5F, .mirostat = 2, .mirostat_tau = 1, .mirostat_eta = 0.5F});
  list.push_back({.temperature = 1, .min_p = 0.05F, .adaptive_target = 0.4F, .adaptive_decay = 0.5F});
  return list;
}

ExactInput small_input(const Rule& rule, const Sampling& sampling, const char* draft) {
  ExactInput input;
  input.request.prompt = {1, 2, 1};
  input.request.sampling = sampling;
  input.request.stops = {0};
  input.request.max_new_tokens = 4;
  input.variation.draft = draft;
  input.variation.draft_max = 3;
  input.variation.rule = &rule;
  return input;
}

const HashShape small_model = {.vocabulary = 4, .levels = 3, .seed = 5};

void expect_equal_distributions(const std::vector<const Rule*>& rules, int max_new_tokens) {
  zoo::ZooSubject subject(small_model);
  for (const Rule* const rule : rules) {
    for (const char* const draft : {"perturbed", "scripted:~+/-~"}) {
      for (const Sampling& sampling : samplers()) {
        ExactInput input = small_input(*rule, sampling, draft);
        input.request.max_new_tokens = max_new_tokens;
        const ExactResult answer = compare_distributions(subject, input);
        EXPECT_EQ(answer.distance, 0) << rule->name << " " << draft;
        EXPECT_GT(answer.texts, 2);
      }
      ExactInput banned = small_input(*rule, {.temperature = 1}, draft);
      banned.request.max_new_tokens = max_new_tokens;
      banned.request.constraint =
          std::make_shared<Bans>(nullptr, 4, banned.request.stops, 2, std::vector<std::vector<Token>>{{3}, {1, 2}});
      EXPECT_EQ(compare_distributions(subject, banned).distance, 0) << rule->name << " " << draft;
    }
  }
}

TEST(CompareDistributions, OfEverySamplerAndOfBansAreThoseOfPlainDecoding) {
  expect_equal_distributions({&matching, &rejection, &block}, 3);
}

// The rule of blocks alone decides with what lies deeper.
TEST(CompareDistributionsSlow, OfEverySamplerAndOfBansAreThoseOfPlainDecoding) {
  expect_equal_distributions({&block}, 4);
}

/// The distribution of whole texts, straight from the definition of what feeds back.
void add_texts(Model& target, const Request& request, const std::vector<Token>& text, double mu, double sum,
               double count, double probability, std::map<std::vector<Token>, double>& all) {
  const Sampling& s = request.sampling;
  const bool ended = text.size() > request.prompt.size() && request.stops_at(text.back());
  if (ended || text.size() == request.prompt.size() + static_cast<std::size_t>(request.max_new_tokens)) {
    all[text] += probability;
    return;
  }
  const Distribution row = compute_distribution(logits_after(target, text), s, {text, {}});
  std::vector<double> p, left;
  for (Token token = 0; token < target.vocabulary(); ++token) {
    p.push_back(static_cast<double>(row.weight(token)) / static_cast<double>(Distribution::total));
  }
  if (s.mirostat == 2) {
    for (const double each : p) left.push_back(each > 0 && -std::log2(each) <= mu ? each : 0);
    if (*std::ranges::max_element(left) == 0) left[std::ranges::max_element(p) - p.begin()] = 1;
  } else {
    const double aim = std::clamp(2 * s.adaptive_target - sum / count, 0.0, 1.0);
    for (const double each : p) {
      const double off = std::fabs(each - aim) / 0.3;
      left.push_back(each > 0 ? std::exp(5 - 10 * off * off / (1 + off)) : 0);
    }
  }
  const double whole = std::accumulate(left.begin(), left.end(), 0.0);
  for (Token token = 0; token < target.vocabulary(); ++token) {
    if (left[token] == 0) continue;
    std::vector<Token> longer = text;
    longer.push_back(token);
    const double drawn = left[token] / whole;
    add_texts(target, request, longer, mu - s.mirostat_eta * (-std::log2(drawn) - s.mirostat_tau),
              p[token] + s.adaptive_decay * sum, 1 + s.adaptive_decay * count, probability * drawn, all);
  }
}

TEST(CompareDistributions, OfWhatFeedsBackAreThoseOfItsDefinition) {
  zoo::ZooSubject subject(small_model);
  for (const Sampling& sampling : samplers()) {
    if (!sampling.feeds_back()) continue;
    const Request request = small_input(matching, sampling, "perturbed").request;
    Model& target = subject.target({});
    std::map<std::vector<Token>, double> expected, found;
    const double count = 1 / (1 - double{sampling.adaptive_decay});
    add_texts(target, request, request.prompt, 2 * double{sampling.mirostat_tau}, sampling.adaptive_target * count,
              count, 1, expected);
    EnumeratedSource random;
    do {
      random.begin_path();
      std::vector<Token> text = request.prompt;
      for (const Token token : plain(target, request, random).output) text.push_back(token);
      found[text] += random.probability().convert_to<double>();
    } while (random.next_path());
    EXPECT_EQ(found.size(), expected.size());
    for (const auto& [text, probability] : expected) EXPECT_NEAR(found[text], probability, 1e-6);
  }
}

TEST(CompareDistributions, FindFeedbackThatIsLeftOut) {
  zoo::ZooSubject subject(small_model, {.loop = zoo::Fault::none});
  for (const Sampling& sampling : samplers()) {
    const ExactResult answer = compare_distributions(subject, small_input(rejection, sampling, "perturbed"));
    EXPECT_EQ(answer.distance > 0, sampling.feeds_back());
  }
}

TEST(CompareDistributions, FindDryThatDoesNotSeeTheDraftedPathOrKeepsWhatWasRejected) {
  const Sampling dry{.temperature = 1, .dry_multiplier = 1, .dry_allowed_length = 1};
  for (const zoo::Fault fault : {zoo::Fault::penalties_blind_to_draft, zoo::Fault::rejected_counted}) {
    zoo::ZooSubject subject(small_model, {.loop = fault});
    EXPECT_GT(compare_distributions(subject, small_input(rejection, dry, "perturbed")).distance, 0);
  }
}

TEST(CompareDistributions, EveryPathAndEveryTextCounts) {
  std::vector<std::vector<Token>> texts = {{}};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<Token> text = texts[i];
    LoadedAfter loaded(text);
    // 2^-n of the probability arrives there, and a quarter of it is moved.
    EXPECT_EQ(compare_distributions(loaded, input(3, {})).distance, Rational(1, 4 << text.size()));
    if (text.size() == 2) continue;
    for (const Token token : {0, 1}) {
      texts.push_back(text);
      texts.back().push_back(token);
    }
  }
  EXPECT_EQ(texts.size(), 7U);
}

TEST(ExactDistributionCheck, EveryInputCounts) {
  for (std::size_t wrong = 0; wrong < 5; ++wrong) {
    ExactDistributionCheck cases;
    for (std::size_t i = 0; i < 5; ++i) {
      LoadedCoin coin(i == wrong ? 3 : 1, 1);
      cases.ask(coin, input(2, {}));
    }
    EXPECT_EQ(std::move(cases).finding().outcome, Outcome::fail) << wrong;
  }
}

TEST(CompareDistributions, ATextImpossibleInPlainDecodingCounts) {
  LoadedCoin never_zero(0, 1);
  EXPECT_EQ(compare_distributions(never_zero, input(2, {0})).distance, Rational(3, 4));
}

Finding make_finding(Subject& subject, const std::vector<ExactInput>& inputs) {
  ExactDistributionCheck cases;
  for (const ExactInput& input : inputs) cases.ask(subject, input);
  return std::move(cases).finding();
}

TEST(ExactDistributionCheck, NamesVariationAndWorstTextOfADeviationAndAsksNoMore) {
  LoadedCoin loaded(3, 1);
  const Finding finding = make_finding(loaded, {input(2, {0}), input(3, {})});
  EXPECT_EQ(finding.outcome, Outcome::fail);
  EXPECT_EQ(finding.examined, 1);
  EXPECT_THAT(finding.message, HasSubstr("rejection"));
  EXPECT_THAT(finding.message, HasSubstr("0.25"));
  EXPECT_THAT(told(finding), HasSubstr("differs most is 0"));
  expect_whole(finding);
}

TEST(ExactDistributionCheck, IsVacuousWithoutDraftTokensAndWithoutInputs) {
  LoadedCoin fair(1, 1);
  EXPECT_EQ(make_finding(fair, {input(2, {0})}).outcome, Outcome::vacuous);
  EXPECT_EQ(make_finding(fair, {}).outcome, Outcome::vacuous);
}

ExactResult answer_to(const ExactCase& exact_case) {
  const auto& [vocabulary, levels, spread, seed, input] = exact_case;
  zoo::ZooSubject subject({.vocabulary = vocabulary, .levels = levels, .spread = spread, .seed = seed});
  return compare_distributions(subject, exact_case.input);
}

/// The handwritten cases, and the answers of the production loop, for all tests of this file.
const std::vector<std::pair<ExactInput, ExactResult>>& answers_of(const Rule& rule) {
  static std::map<std::string, std::vector<std::pair<ExactInput, ExactResult>>> by_rule;
  auto& answers = by_rule[rule.name];
  if (answers.empty()) {
    for (const ExactCase& exact_case : handwritten_cases(rule)) {
      answers.emplace_back(exact_case.input, answer_to(exact_case));
    }
  }
  return answers;
}

TEST(ExactDistributionCheckSlow, TheProductionLoopHasTheDistributionsOfPlainDecoding) {
  for (const Rule* rule : {&matching, &rejection, &block}) {
    const Finding finding = zoo::check_production_distribution(*rule);
    EXPECT_EQ(finding.outcome, Outcome::pass) << finding.message;
    EXPECT_THAT(finding.message, HasSubstr("822 joint distributions, and 4 of two sequences in one batch, over "));
    EXPECT_THAT(finding.message, HasSubstr("largest deviation 0; all coverage events were met, the rarest "));
  }
}

TEST(ExactDistributionCheckSlow, IsVacuousWhenAnEventWasNeverMetAndNamesIt) {
  for (const Rule* rule : {&matching, &rejection}) {
    Coverage met;
    ExactDistributionCheck all;
    for (const auto& [input, answer] : answers_of(*rule)) {
      met.add(answer.met);
      all.add(input, answer);
    }
    EXPECT_EQ(std::move(all).finding().outcome, Outcome::pass);
    for (const CoverageEvent event : Coverage().missing({.rejection = rule == &rejection, .trees = true})) {
      EXPECT_GT(met[event], 0) << name_of(event);
      ExactDistributionCheck cases;
      for (const auto& [input, answer] : answers_of(*rule)) {
        if (answer.met[event] == 0) cases.add(input, answer);
      }
      const Finding finding = std::move(cases).finding();
      EXPECT_EQ(finding.outcome, Outcome::vacuous) << name_of(event);
      EXPECT_THAT(finding.message, HasSubstr(name_of(event)));
    }
  }
}

TEST(ExactDistributionCheckSlow, IsVacuousWhenTreesWereRequestedAndNoneWasDrafted) {
  ExactDistributionCheck cases;
  for (const auto& [input, answer] : answers_of(rejection)) {
    const bool tree = input.variation.draft.find_first_of("<&") != std::string::npos;
    cases.add(input, tree ? ExactResult{} : answer);
  }
  const Finding finding = std::move(cases).finding();
  EXPECT_EQ(finding.outcome, Outcome::vacuous);
  EXPECT_THAT(finding.message, HasSubstr(name_of(CoverageEvent::sibling_accepted)));
}

TEST(ExactDistributionCheckSlow, IsVacuousWhenADraftNeverDraftedInOneWayOfVerification) {
  ExactDistributionCheck cases;
  for (const auto& [input, answer] : answers_of(rejection)) {
    const bool silent = input.variation.draft == "perfect" && input.variation.verification == Verification::serial;
    cases.add(input, silent ? ExactResult{} : answer);
  }
  const Finding finding = std::move(cases).finding();
  EXPECT_EQ(finding.outcome, Outcome::vacuous);
  EXPECT_THAT(finding.message, HasSubstr("no draft token of perfect, serial was ever verified"));
}

TEST(GeneratedCases, TreesHaveAtMostFourDraftTokensAndMostHaveSiblings) {
  int trees = 0;
  for (int number = 0; number < 2000; ++number) {
    const ExactCase exact_case = generated_case(rejection, number, 500, DraftShape::trees);
    const std::string& draft = exact_case.input.variation.draft;
    ASSERT_TRUE(draft.starts_with("scripted:"));
    const auto draft_tokens = [](char letter) {
      return std::string_view("+~?-*0123456789").find(letter) != std::string::npos;
    };
    std::string word;
    for (const char letter : draft.substr(9) + "/") {
      if (letter != '/') {
        word += letter;
        continue;
      }
      EXPECT_EQ(std::count_if(word.begin(), word.end(), draft_tokens), word.empty() ? 0 : 4) << draft;
      const std::string after_back = word.substr(std::min(word.find('<'), word.size()));
      EXPECT_EQ(after_back.find_first_of("+~?&"), std::string::npos) << draft << ": only the first branch is drawn";
      word.clear();
    }
    trees += draft.find_first_of("<&") != std::string::npos;
  }
  EXPECT_GT(trees, 1000);
}

TEST(GeneratedCases, AreSmallFitTheirModelAndAreReproducible) {
  std::set<int> vocabularies;
  std::set<int> texts;
  std::set<std::string> drafts;
  std::set<Token> stops;
  for (int number = 0; number < 2000; ++number) {
    const ExactCase exact_case = generated_case(rejection, number, 500);
    const Request& request = exact_case.input.request;
    const Variation& variation = exact_case.input.variation;
    EXPECT_TRUE(exact_case.vocabulary >= 2 && exact_case.vocabulary <= 8);
    EXPECT_TRUE(request.max_new_tokens >= 1 && request.max_new_tokens <= 6);
    EXPECT_TRUE(variation.draft_max >= 1 && variation.draft_max <= 4);
    ASSERT_FALSE(request.prompt.empty());
    for (const Token token : request.prompt) EXPECT_LT(token, exact_case.vocabulary);
    for (const Token token : request.stops) EXPECT_LT(token, exact_case.vocabulary);
    vocabularies.insert(exact_case.vocabulary);
    texts.insert(request.max_new_tokens);
    drafts.insert(variation.draft);
    stops.insert(static_cast<Token>(request.stops.size()));
    const ExactCase again = generated_case(rejection, number, 500);
    EXPECT_EQ(again.input.variation.describe(), variation.describe());
    EXPECT_TRUE(again.input.request.sampling == request.sampling && again.input.request.stops == request.stops);
  }
  EXPECT_EQ(vocabularies.size(), 7U);
  EXPECT_EQ(texts.size(), 6U);
  EXPECT_GT(drafts.size(), 500U);
  EXPECT_EQ(stops.size(), 3U);
}

void expect_right(int count, const Rule& rule, DraftShape drafted, double paths_max = 2000) {
  ExactDistributionCheck cases;
  for (int number = 0; number < count; ++number) {
    const ExactCase exact_case = generated_case(rule, number, paths_max, drafted);
    cases.add(exact_case.input, answer_to(exact_case));
  }
  const Finding finding = std::move(cases).finding();
  EXPECT_EQ(finding.outcome, Outcome::pass) << finding.message;
  testing::Test::RecordProperty(rule.name, finding.message);
}

constexpr int all = 10000;  // as many are needed for trees to meet every event
constexpr int some = 1500;  // chains do with fewer
TEST(SlowExactMatching, GeneratedChains) { expect_right(some, matching, DraftShape::chains); }
TEST(SlowExactMatching, GeneratedTrees) { expect_right(all, matching, DraftShape::trees); }
TEST(SlowExactRejection, GeneratedChains) { expect_right(some, rejection, DraftShape::chains); }
TEST(SlowExactRejection, GeneratedTrees) { expect_right(all, rejection, DraftShape::trees); }
/// Trees it verifies as rejection does. Its coins make more paths of as many draws, so its texts are shorter.
TEST(SlowExactBlock, GeneratedChains) { expect_right(some, block, DraftShape::chains, 200); }
TEST(SweepExact, GeneratedChainsByMatching) { expect_right(all, matching, DraftShape::chains); }
TEST(SweepExact, GeneratedChainsByRejection) { expect_right(all, rejection, DraftShape::chains); }
TEST(SweepExact, GeneratedChainsByBlock) { expect_right(all, block, DraftShape::chains, 200); }

}  // namespace
}  // namespace draftproof::exact_distribution_test
