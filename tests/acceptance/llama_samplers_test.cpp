// SPDX-License-Identifier: MIT
// llama.cpp's own samplers leave the same tokens of random rows, with nearly the same probabilities: it computes in
// float (fixtures/make/external/llama_samplers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ref/acceptance/feedback.h"
#include "ref/acceptance/sampler.h"

namespace draftproof::llama_samplers_test {
namespace {

using Json = nlohmann::json;

constexpr double weight_min = 0x1p-38;  // of a token that raw weights do not lose

Sampling sampling_of(const Json& asked) {
  Sampling sampling;
  for_each_sampling_field([&](const auto& field) {
    if (asked.contains(field.name)) sampling.*field.member = asked[field.name];
  });
  if (!asked.contains("repeat_last_n")) sampling.repeat_last_n = 0;
  if (asked.contains("xtc_threshold")) sampling.xtc_probability = 1;
  if (asked.contains("dry_breakers")) sampling.dry_breakers = asked["dry_breakers"].get<std::vector<Token>>();
  sampling.apply_only(parse_samplers(asked["samplers"].get<std::vector<std::string>>()));
  return sampling;
}

TEST(LlamaSamplers, LeaveTheSameTokens) {
  std::ifstream file(std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external/llama-cpp-samplers/cases.json");
  const Json cases = Json::parse(file)["cases"];
  EXPECT_EQ(cases.size(), 56U);
  double furthest = 0;
  for (const Json& asked : cases) {
    const auto text = asked["text"].get<std::vector<Token>>();
    const auto logits = asked["logits"].get<std::vector<float>>();
    const Distribution p = compute_distribution(logits, sampling_of(asked), {text, {}});
    std::vector<Token> left, lost;
    for (const Json& one : asked["left"]) {
      left.push_back(one[0]);
      if (one[1] > weight_min && p.weight(one[0]) == 0) lost.push_back(one[0]);
      const double own = static_cast<double>(p.weight(one[0])) / static_cast<double>(Distribution::total);
      furthest = std::max(furthest, std::abs(own - one[1].get<double>()));
    }
    EXPECT_TRUE(std::ranges::includes(left, p.tokens())) << asked;
    EXPECT_TRUE(lost.empty()) << asked;
  }
  EXPECT_LT(furthest, 2e-5);
  RecordProperty("furthest", std::to_string(furthest));
}

TEST(LlamaSamplers, ThatFeedBackLeaveTheSameTokens) {
  std::ifstream file(std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures/external/llama-cpp-samplers/cases.json");
  const Json cases = Json::parse(file)["fed_back"];
  EXPECT_EQ(cases.size(), 6U);
  double furthest = 0;
  for (const Json& asked : cases) {
    Sampling sampling;
    for_each_sampling_field([&](const auto& field) {
      if (asked.contains(field.name)) sampling.*field.member = asked[field.name];
    });
    Feedback feedback(sampling);
    for (const Json& step : asked["steps"]) {
      const Distribution row = compute_distribution(step["logits"].get<std::vector<float>>(), sampling, {});
      const Distribution p = feedback.applied_to(row);
      std::vector<Token> left;
      for (const Json& one : step["left"]) {
        left.push_back(one[0]);
        const double own = static_cast<double>(p.weight(one[0])) / static_cast<double>(Distribution::total);
        furthest = std::max(furthest, std::abs(own - one[1].get<double>()));
      }
      EXPECT_EQ(p.tokens(), left) << step;
      feedback = feedback.after(row, step["token"]);
    }
  }
  EXPECT_LT(furthest, 2e-5);
}

}  // namespace
}  // namespace draftproof::llama_samplers_test
