// SPDX-License-Identifier: MIT
#include "ref/acceptance/sampling_params.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "ref/acceptance/sampler.h"

namespace draftproof::sampling_params_test {
namespace {

TEST(SamplingFields, AreAllMembersThatAreNumbers) {
  // Does not compile with a member more or less.
  [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, order, logit_bias,
                                dry_breakers] = Sampling{};
  constexpr std::size_t members = 23;
  std::set<std::string> names;
  std::set<std::string> api_names;
  for_each_sampling_field([&](const auto& field) {
    names.insert(field.name);
    api_names.insert(field.api_name);
  });
  EXPECT_EQ(names.size(), members);
  EXPECT_EQ(api_names.size(), members);
}

TEST(SamplingFields, HaveADefaultThatUsersMayAskFor) {
  for_each_sampling_field([](const auto& field) {
    const auto value = Sampling{}.*field.member;
    EXPECT_TRUE(field.min <= value && value <= field.max) << field.name;
    EXPECT_TRUE(field.min <= field.off && field.off <= field.max) << field.name;
    EXPECT_FALSE(field.not_zero && (value == 0 || field.off == 0 || field.min != 0)) << field.name;
  });
}

TEST(SamplingFields, ThatAreOffLeaveTheDistributionAsItIs) {
  const std::vector<float> logits = {0.5F, -1, 2, 1.5F};
  const std::vector<Token> text = {0, 2, 2};
  Sampling off;
  for_each_sampling_field([&](const auto& field) { off.*field.member = field.off; });
  off.order = llama_cpp_order;
  const Distribution plain = compute_distribution(logits, {.temperature = 1}, {text, {}});
  EXPECT_EQ(compute_distribution(logits, off, {text, {}}), plain);
  off.repeat_last_n = -1;
  EXPECT_EQ(compute_distribution(logits, off, {text, {}}), plain) << "each penalty is off on its own";
}

}  // namespace
}  // namespace draftproof::sampling_params_test
