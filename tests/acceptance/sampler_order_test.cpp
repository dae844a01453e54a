// SPDX-License-Identifier: MIT
#include "ref/acceptance/sampler_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ref/acceptance/sampler.h"
#include "ref/base/error.h"
#include "tests/acceptance/numbers.h"

namespace draftproof::sampler_order_test {
namespace {

using enum SamplerStep;
using testing::ElementsAre;
using testing::HasSubstr;
using Steps = std::vector<SamplerStep>;

std::string error_of(const auto& function) {
  try {
    function();
  } catch (const Error& wrong) {
    return wrong.what();
  }
  return "";
}

TEST(SamplerOrder, KnowsTheNamesOfLlamaCpp) {
  for (const SamplerStep step : transformers_order) EXPECT_EQ(find_sampler_step(name_of(step)), step);
  EXPECT_EQ(find_sampler_step("top-n-sigma"), top_n_sigma);
  EXPECT_EQ(find_sampler_step("typical"), typ_p);
  EXPECT_EQ(find_sampler_step("mirostat"), std::nullopt);
}

TEST(SamplerOrder, HasEachStepOnceAndThoseThatAreNotListedLast) {
  for (const SamplerOrder& order : {transformers_order, llama_cpp_order}) {
    EXPECT_TRUE(std::ranges::is_permutation(order, transformers_order));
  }
  EXPECT_EQ(order_from({}), transformers_order);
  EXPECT_EQ(order_from(llama_cpp_order), llama_cpp_order);
  EXPECT_THAT(order_from(Steps{xtc, top_k}),
              ElementsAre(xtc, top_k, penalties, dry, temperature, top_n_sigma, top_p, min_p, typ_p));
}

TEST(SamplerOrder, IsReadFromNamesAndFromNumbersOfKoboldcpp) {
  const auto names = [](std::vector<std::string> list) { return parse_samplers(list); };
  EXPECT_THAT(names({"top_k", "typical_p", "temp"}), ElementsAre(top_k, typ_p, temperature));
  EXPECT_EQ(order_from(names({"llama.cpp"})), llama_cpp_order);
  EXPECT_EQ(order_from(names({"transformers"})), transformers_order);
  EXPECT_THAT(error_of([&] {
                names({"top_k", "top_a"});
              }),
              HasSubstr("there is no sampler top_a; the names are penalties"));
  EXPECT_THAT(error_of([&] { names({"top_k", "top-k"}); }), HasSubstr("top_k is listed twice"));
  EXPECT_THAT(error_of([&] { names({"top_k", "llama.cpp"}); }), HasSubstr("there is no sampler llama.cpp"));
  const auto numbers = [](std::vector<int> list) { return parse_kobold_order(list); };
  EXPECT_THAT(numbers({6, 0, 1, 3, 4, 2, 5}),
              ElementsAre(dry, penalties, top_k, typ_p, top_p, min_p, temperature, top_n_sigma, xtc));
  EXPECT_THAT(numbers({5}), ElementsAre(dry, temperature, top_n_sigma, xtc));
  EXPECT_THAT(error_of([&] { numbers({7}); }), HasSubstr("7 is no sampler; the numbers are 0 to 6"));
  EXPECT_THAT(error_of([&] { numbers({2, 2}); }), HasSubstr("top_p is listed twice"));
}

const Sampling with_every_step{.temperature = 2,
                               .top_k = 5,
                               .top_p = 0.5F,
                               .min_p = 0.1F,
                               .presence_penalty = 1,
                               .top_n_sigma = 1,
                               .typical_p = 0.5F,
                               .dynatemp_range = 0.5F,
                               .xtc_probability = 1,
                               .dry_multiplier = 1};

TEST(SamplerOrder, OfAllButOneTurnsOffThatOneOnly) {
  for (const SamplerStep off : with_every_step.order) {
    Steps others;
    std::ranges::copy_if(with_every_step.order, std::back_inserter(others),
                         [&](SamplerStep step) { return step != off; });
    Sampling s = with_every_step;
    s.apply_only(others);
    for (const SamplerStep step : s.order) EXPECT_EQ(s.applies(step), step != off) << name_of(off) << name_of(step);
  }
}

TEST(SamplerOrder, OfSomeTurnsOffTheOthers) {
  Sampling s = with_every_step;
  for (const SamplerStep step : s.order) EXPECT_TRUE(s.applies(step)) << name_of(step);
  s.apply_only(Steps{top_p, top_k});
  for (const SamplerStep step : s.order) EXPECT_EQ(s.applies(step), step == top_p || step == top_k) << name_of(step);
  EXPECT_EQ(s.temperature, 1);
}

TEST(SamplerOrder, OfAListHasAdaptivePLast) {
  const auto target = [](std::vector<std::string> names) {
    Sampling sampling{.temperature = 1, .adaptive_target = 0.5F};
    sampling.apply_named(std::move(names));
    return sampling.adaptive_target;
  };
  EXPECT_EQ(target({"min_p", "adaptive_p"}), 0.5F);
  EXPECT_EQ(target({"adaptive_p"}), 0.5F);
  EXPECT_EQ(target({"llama.cpp"}), 0.5F);
  EXPECT_LT(target({"min_p"}), 0);
  EXPECT_THAT(error_of([&] { target({"adaptive_p", "min_p"}); }), HasSubstr("there is no sampler adaptive_p"));
  EXPECT_THAT(error_of([&] { target({"mirostat"}); }), HasSubstr("there is no sampler mirostat"));
}

TEST(SamplerOrder, OfMirostatIsTheTemperatureAlone) {
  Sampling s{.temperature = 2, .top_p = 0.5F, .dynatemp_range = 1, .mirostat = 2, .adaptive_target = 0.5F};
  s.apply_mirostat_alone();
  for (const SamplerStep step : s.order) EXPECT_EQ(s.applies(step), step == temperature) << name_of(step);
  EXPECT_EQ(s.dynatemp_range, 0);
  EXPECT_TRUE(s.feeds_back());
}

TEST(SamplerOrder, OfLlamaCppCutsWhatTheModelItselfSays) {
  // A row of 200 tokens, each a factor of 0.97 below the one before.
  std::vector<float> row;
  for (int i = 0; i < 200; ++i) row.push_back(static_cast<float>(i) * std::log(0.97F));
  Sampling s{.temperature = 2, .top_p = 0.8F};
  EXPECT_EQ(compute_distribution(row, s, {}).tokens().size(), 95U);
  s.order = llama_cpp_order;
  EXPECT_EQ(compute_distribution(row, s, {}).tokens().size(), 53U);
}

}  // namespace
}  // namespace draftproof::sampler_order_test
