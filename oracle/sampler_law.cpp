// SPDX-License-Identifier: MIT
#include "oracle/sampler_law.h"

#include <sstream>

#include "oracle/enumerate.h"
#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr std::uint64_t bound_max = 1 << 16;
constexpr long paths_max = 1'000'000;
constexpr std::size_t questions_max = 1000;
constexpr std::size_t texts_shown = 8;

/// A sampler that tries until it succeeds never ends on the path where it does not.
class PatientChance final : public Chance {
 public:
  explicit PatientChance(EnumeratedChance& chance) : chance_(chance) {}
  std::size_t pick(const Key& key, std::span<const std::uint64_t> weights) override {
    if (chance_.depth() == questions_max) throw Error("it asks more than a thousand questions on one path");
    return chance_.pick(key, weights);
  }

 private:
  EnumeratedChance& chance_;
};

template <class Value>
std::string written(const Value& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string event(const std::vector<Token>& tokens) {
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return "P(" + text + ")";
}

Rational probability(const Law& law, const std::vector<Token>& text) {
  const auto place = law.find(text);
  return place == law.end() ? Rational(0) : place->second;
}

}  // namespace

std::uint64_t Coins::below(std::uint64_t bound) {
  REQUIRE(bound >= 1 && bound <= bound_max, "a coin has between 1 and 2^16 sides, or there is no enumerating it");
  const std::vector<std::uint64_t> sides(bound, 1);
  return chance_.pick({0, asked_++, Purpose::target}, sides);
}

SamplerLaw law_of(const TextSampler& sampler) {
  SamplerLaw result;
  EnumeratedChance chance;
  PatientChance patient(chance);
  try {
    do {
      if (++result.paths > paths_max) throw Error("it has more than a million paths; give it smaller weights");
      chance.begin_path();
      const std::vector<Token> text = sampler(patient);
      result.law[text] += chance.probability();
    } while (chance.next_path());
  } catch (const Error& wrong) {
    result.fault = wrong.what();
  }
  return result;
}

Law law_from(const std::vector<std::uint64_t>& weights) {
  boost::multiprecision::cpp_int sum = 0;
  for (const std::uint64_t weight : weights) sum += weight;
  REQUIRE(sum > 0, "some weight is positive");
  Law law;
  for (std::size_t token = 0; token < weights.size(); ++token) {
    if (weights[token] > 0) law[{static_cast<Token>(token)}] = Rational(weights[token], sum);
  }
  return law;
}

Law law_from(const Distribution& distribution) {
  Law law;
  for (const Token token : distribution.tokens()) {
    law[{token}] = Rational(distribution.weight(token), Distribution::total);
  }
  return law;
}

std::string text_of(const Law& law) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [tokens, p] : law) {
    if (shown++ == texts_shown) return text + ", ... (" + std::to_string(law.size()) + " texts)";
    text += (text.empty() ? "" : ", ") + event(tokens) + " = " + written(p);
  }
  return text;
}

std::string deviation(const Law& found, const Law& expected) {
  Rational distance = 0;
  Rational largest = 0;
  std::vector<Token> worst;
  Law all = found;
  all.insert(expected.begin(), expected.end());
  for (const auto& [text, ignored] : all) {
    const Rational size = abs(probability(found, text) - probability(expected, text));
    distance += size / 2;
    if (size <= largest) continue;
    largest = size;
    worst = text;
  }
  if (distance == 0) return "";
  return event(worst) + " is " + written(probability(found, worst)) + " where it should be " +
         written(probability(expected, worst)) + "; total variation " + written(distance);
}

}  // namespace draftproof
