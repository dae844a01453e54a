// SPDX-License-Identifier: MIT
// GoogleTest matchers for tests of other people's samplers and engines. This header is all there is: include it where
// gmock is available, and link draftproof::oracle.
//
//   EXPECT_THAT(trace, IsLosslessUnder(target));             // a run under `matching` with seed 0
//   EXPECT_THAT(trace, IsLosslessUnder(target, rejection, 7));
//   EXPECT_THAT(sampler, HasExactDistribution({1, 2, 1}));   // every random draw enumerated, no tolerance
//
// A sampler is anything that can be called, as const, with a RandomSource& and returns a token, which is an integer, or
// a text, which is a std::vector<Token>. For a sampler that needs plain uniform numbers see Coins in
// oracle/exact/sampler_distribution.h. The expected distribution is given as weights by token, a Distribution, or a
// TextDistribution. Nothing is known about a sampler that cannot be enumerated, not even that its distribution differs:
// the matcher, negated or not, then throws an Error, which fails the test.
#pragma once

#include <gmock/gmock.h>

#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "oracle/exact/sampler_distribution.h"
#include "oracle/lossless.h"
#include "ref/base/error.h"

namespace draftproof {

class LosslessMatcher {
 public:
  using is_gtest_matcher = void;
  LosslessMatcher(Model& target, const Rule& rule, std::uint64_t seed) : target_(target), rule_(rule), seed_(seed) {}

  bool MatchAndExplain(const Trace& trace, std::ostream* out) const {
    const Losslessness found = examine(trace, target_, rule_, seed_);
    if (out != nullptr) *out << found.message;
    return found.lossless;
  }
  void DescribeTo(std::ostream* out) const { *out << "is lossless under the target, with the rule " << rule_.name; }
  void DescribeNegationTo(std::ostream* out) const { *out << "is not lossless under the target"; }

 private:
  Model& target_;
  const Rule& rule_;
  std::uint64_t seed_;
};

/// `target` is the target of the run and must outlive the matcher.
inline testing::Matcher<const Trace&> IsLosslessUnder(Model& target, const Rule& rule = matching,
                                                      std::uint64_t seed = 0) {
  return LosslessMatcher(target, rule, seed);
}

class ExactDistributionMatcher {
 public:
  using is_gtest_matcher = void;
  explicit ExactDistributionMatcher(TextDistribution expected) : expected_(std::move(expected)) {}

  template <class Sampler>
  bool MatchAndExplain(const Sampler& sampler, std::ostream* out) const {
    static_assert(std::is_invocable_v<const Sampler&, RandomSource&>,
                  "a sampler is called as const, with a RandomSource&; pass a mutable one as std::ref(sampler)");
    const SamplerDistribution found =
        compute_distribution([&](RandomSource& random) { return text_of_sample(sampler(random)); });
    if (!found.fault.empty()) throw Error("the sampler cannot be enumerated: " + found.fault);
    const std::string wrong = deviation(found.distribution, expected_);
    if (out != nullptr) {
      *out << "whose distribution over " << found.paths << " paths is " << text_of(found.distribution);
      if (!wrong.empty()) *out << ": " << wrong;
    }
    return wrong.empty();
  }
  void DescribeTo(std::ostream* out) const { *out << "has exactly the distribution " << text_of(expected_); }
  void DescribeNegationTo(std::ostream* out) const { *out << "has another distribution than " << text_of(expected_); }

 private:
  template <class Sample>
  static std::vector<Token> text_of_sample(const Sample& sample) {
    constexpr bool text = std::is_convertible_v<const Sample&, std::vector<Token>>;
    static_assert(text || std::is_integral_v<Sample>,
                  "a sampler returns a token, which is an integer, or a text, which is a std::vector<Token>");
    if constexpr (text) {
      return sample;
    } else {
      if (!std::in_range<Token>(+sample)) {
        throw Error("it returns " + std::to_string(sample) + ", which is not a token");
      }
      return {static_cast<Token>(sample)};
    }
  }

  TextDistribution expected_;
};

inline ExactDistributionMatcher HasExactDistribution(const std::vector<std::uint64_t>& weights) {
  return ExactDistributionMatcher(distribution_from(weights));
}
inline ExactDistributionMatcher HasExactDistribution(std::initializer_list<std::uint64_t> weights) {
  return HasExactDistribution(std::vector(weights));
}
inline ExactDistributionMatcher HasExactDistribution(const Distribution& distribution) {
  return ExactDistributionMatcher(distribution_from(distribution));
}
inline ExactDistributionMatcher HasExactDistribution(TextDistribution distribution) {
  return ExactDistributionMatcher(std::move(distribution));
}

}  // namespace draftproof
