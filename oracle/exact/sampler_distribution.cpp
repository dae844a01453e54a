// SPDX-License-Identifier: MIT
#include "oracle/exact/sampler_distribution.h"

#include <sstream>
#include <utility>

#include "oracle/exact/enumerate.h"
#include "ref/base/error.h"

namespace draftproof {
namespace {

constexpr std::uint64_t bound_max = 1 << 16;
constexpr long paths_max = 1'000'000;
constexpr std::size_t draws_max = 1000;
constexpr std::size_t texts_shown = 8;

/// Enumeration for programs that are not ours: a broken invariant of EnumeratedSource is an Error here.
class ForeignSource final : public RandomSource {
 public:
  void begin_path() {
    random_.begin_path();
    draws_.resize(random_.bound());
  }

  std::size_t sample_index(const Key& key, std::span<const std::uint64_t> weights) override {
    const std::size_t depth = random_.depth();
    // A sampler that retries until it succeeds never ends on the path where it always fails.
    if (depth == draws_max) throw Error("it makes more than a thousand draws on one path");
    std::uint64_t sum = 0;
    for (const std::uint64_t weight : weights) {
      sum += weight;
      if (sum < weight) throw Error("it draws from weights that sum to 2^64 or more; give it smaller weights");
    }
    if (sum == 0) throw Error("it draws from weights that are all zero");
    const Draw draw(key, std::vector(weights.begin(), weights.end()));
    if (depth == draws_.size()) draws_.push_back(draw);
    if (draws_[depth] != draw) refuse_state("it makes other draws");
    return random_.sample_index(key, weights);
  }

  /// Returns the number of draws on this path.
  std::size_t end_path() const {
    if (random_.depth() < draws_.size()) refuse_state("it makes other draws");
    return draws_.size();
  }

  bool next_path() { return random_.next_path(); }
  Rational probability() const { return random_.probability(); }

  [[noreturn]] static void refuse_state(const std::string& what) {
    throw Error(what + " when it gets the same results; does it keep state between calls?");
  }

 private:
  using Draw = std::pair<Key, std::vector<std::uint64_t>>;  // key and weights

  EnumeratedSource random_;
  std::vector<Draw> draws_;  // made on this path, or still to be made
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

Rational probability(const TextDistribution& distribution, const std::vector<Token>& text) {
  const auto place = distribution.find(text);
  return place == distribution.end() ? Rational(0) : place->second;
}

}  // namespace

std::uint64_t Coins::below(std::uint64_t bound) {
  if (bound == 0) throw Error("it draws a number below 0");
  if (bound > bound_max) {
    throw Error("it draws a number below " + std::to_string(bound) + "; give it weights that sum to 65536 at most");
  }
  const std::vector<std::uint64_t> sides(bound, 1);
  return random_.sample_index({0, drawn_++, Purpose::target}, sides);
}

SamplerDistribution compute_distribution(const TextSampler& sampler) {
  SamplerDistribution result;
  ForeignSource random;
  const auto run_path = [&] {
    random.begin_path();
    const std::vector<Token> text = sampler(random);
    return std::pair(text, random.end_path());
  };
  try {
    do {
      if (++result.paths > paths_max) throw Error("it has more than a million paths; give it smaller weights");
      const auto [text, draws] = run_path();
      result.distribution[text] += random.probability();
      const auto again = run_path();
      if (again.second != draws) ForeignSource::refuse_state("it makes other draws");
      if (again.first != text) ForeignSource::refuse_state("it returns another text");
    } while (random.next_path());
  } catch (const Error& wrong) {
    result.fault = wrong.what();
  }
  return result;
}

TextDistribution distribution_from(const std::vector<std::uint64_t>& weights) {
  boost::multiprecision::mpz_int sum = 0;
  for (const std::uint64_t weight : weights) sum += weight;
  if (sum == 0) throw Error("weights of a distribution need one that is positive");
  TextDistribution distribution;
  for (std::size_t token = 0; token < weights.size(); ++token) {
    if (weights[token] > 0) distribution[{static_cast<Token>(token)}] = Rational(weights[token], sum);
  }
  return distribution;
}

TextDistribution distribution_from(const Distribution& weights) {
  TextDistribution distribution;
  for (const Token token : weights.tokens()) {
    distribution[{token}] = Rational(weights.weight(token), Distribution::total);
  }
  return distribution;
}

std::string text_of(const TextDistribution& distribution) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& [tokens, p] : distribution) {
    if (shown++ == texts_shown) return text + ", ... (" + std::to_string(distribution.size()) + " texts)";
    text += (text.empty() ? "" : ", ") + event(tokens) + " = " + written(p);
  }
  return text;
}

std::string deviation(const TextDistribution& found, const TextDistribution& expected) {
  Rational distance = 0;
  Rational largest = 0;
  std::vector<Token> worst;
  TextDistribution all = found;
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
