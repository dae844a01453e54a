// SPDX-License-Identifier: MIT
#include "zoo/production_distribution.h"

#include "oracle/exact/exact_cases.h"
#include "zoo/constraint.h"
#include "zoo/zoo_subject.h"

namespace draftproof::zoo {

Finding check_production_distribution(const Rule& rule) {
  ExactDistributionCheck cases;
  const auto ask = [&](const ExactCase& exact_case) {
    const auto& [vocabulary, levels, spread, seed, input] = exact_case;
    ZooSubject subject({.vocabulary = vocabulary, .levels = levels, .spread = spread, .seed = seed});
    cases.ask(subject, input);
  };
  for (const ExactCase& exact_case : handwritten_cases(rule)) ask(exact_case);
  for (const ExactCase& exact_case : constrained_cases(rule)) ask(exact_case);
  for (int number = 0; number < 200; ++number) ask(generated_case(rule, number, 500));
  for (int number = 0; number < 100; ++number) ask(generated_case(rule, number, 500, DraftShape::trees));
  for (const auto& [vocabulary, levels, seed, pair] : pairs_of_sequences(rule)) {
    ZooSubject subject({.vocabulary = vocabulary, .levels = levels, .seed = seed});
    cases.ask(subject, pair);
  }
  return std::move(cases).finding();
}

}  // namespace draftproof::zoo
