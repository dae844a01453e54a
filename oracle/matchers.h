// SPDX-License-Identifier: MIT
// GoogleTest matchers, for tests of other people's samplers and engines. The header is all there is: include it where
// gmock is, and link draftproof::oracle.
//
//   EXPECT_THAT(trace, IsLosslessUnder(target));             // a run by `matching` with seed 0
//   EXPECT_THAT(trace, IsLosslessUnder(target, rejection, 7));
//   EXPECT_THAT(sampler, HasExactLaw(p));                    // every random answer enumerated, no tolerance
//
// A sampler is anything that can be called with a Chance& and returns a token or a text of tokens; see Coins in
// sampler_law.h for one that wants plain uniform numbers. p: weights by token, a Distribution, or a Law of texts.
#pragma once

#include <gmock/gmock.h>

#include <type_traits>
#include <utility>

#include "oracle/lossless.h"
#include "oracle/sampler_law.h"

namespace draftproof {

class LosslessMatcher {
 public:
  using is_gtest_matcher = void;
  LosslessMatcher(Model& target, const Rule& rule, std::uint64_t seed) : target_(target), rule_(rule), seed_(seed) {}

  bool MatchAndExplain(const Trace& trace, std::ostream* out) const {
    const Losslessness found = examine(trace, target_, rule_, seed_);
    if (out != nullptr) *out << found.sentence;
    return found.lossless;
  }
  void DescribeTo(std::ostream* out) const { *out << "is lossless under the target, by the rule " << rule_.name; }
  void DescribeNegationTo(std::ostream* out) const { *out << "is not lossless under the target"; }

 private:
  Model& target_;
  const Rule& rule_;
  std::uint64_t seed_;
};

/// The target is that of the run, and outlives the matcher.
inline testing::Matcher<const Trace&> IsLosslessUnder(Model& target, const Rule& rule = matching,
                                                      std::uint64_t seed = 0) {
  return LosslessMatcher(target, rule, seed);
}

class ExactLawMatcher {
 public:
  using is_gtest_matcher = void;
  explicit ExactLawMatcher(Law expected) : expected_(std::move(expected)) {}

  template <class Sampler>
  bool MatchAndExplain(const Sampler& sampler, std::ostream* out) const {
    const SamplerLaw found = law_of([&](Chance& chance) -> std::vector<Token> {
      if constexpr (std::is_convertible_v<decltype(sampler(chance)), Token>) {
        return {static_cast<Token>(sampler(chance))};
      } else {
        return sampler(chance);
      }
    });
    const std::string wrong = found.fault.empty() ? deviation(found.law, expected_) : found.fault;
    if (out != nullptr && !found.fault.empty()) *out << "which cannot be enumerated: " << wrong;
    if (out != nullptr && found.fault.empty()) {
      *out << "whose law over " << found.paths << " paths is " << text_of(found.law);
      if (!wrong.empty()) *out << ": " << wrong;
    }
    return wrong.empty();
  }
  void DescribeTo(std::ostream* out) const { *out << "has exactly the law " << text_of(expected_); }
  void DescribeNegationTo(std::ostream* out) const { *out << "has another law than " << text_of(expected_); }

 private:
  Law expected_;
};

inline ExactLawMatcher HasExactLaw(const std::vector<std::uint64_t>& weights) {
  return ExactLawMatcher(law_from(weights));
}
inline ExactLawMatcher HasExactLaw(const Distribution& distribution) { return ExactLawMatcher(law_from(distribution)); }
inline ExactLawMatcher HasExactLaw(Law law) { return ExactLawMatcher(std::move(law)); }

}  // namespace draftproof
