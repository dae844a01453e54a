// SPDX-License-Identifier: MIT
#include "oracle/sampler_law.h"

#include <sstream>
#include <utility>

#include "oracle/enumerate.h"
#include "ref/base/error.h"

namespace draftproof {
namespace {

constexpr std::uint64_t bound_max = 1 << 16;
constexpr long paths_max = 1'000'000;
constexpr std::size_t questions_max = 1000;
constexpr std::size_t texts_shown = 8;

/// Enumeration for programs that are not ours: what would be a broken invariant there is an Error here.
class ForeignChance final : public Chance {
 public:
  void begin_path() {
    chance_.begin_path();
    asked_.resize(chance_.bound());
  }

  std::size_t pick(const Key& key, std::span<const std::uint64_t> weights) override {
    const std::size_t depth = chance_.depth();
    // A sampler that tries until it succeeds never ends on the path where it does not.
    if (depth == questions_max) throw Error("it asks more than a thousand questions on one path");
    std::uint64_t sum = 0;
    for (const std::uint64_t weight : weights) {
      sum += weight;
      if (sum < weight) throw Error("it picks from weights that sum to 2^64 or more; give it smaller weights");
    }
    if (sum == 0) throw Error("it picks from weights that are all zero");
    const Question question(key, std::vector(weights.begin(), weights.end()));
    if (depth == asked_.size()) asked_.push_back(question);
    if (asked_[depth] != question) refuse_state("it asks other questions");
    return chance_.pick(key, weights);
  }

  /// The questions that were to be asked on this path.
  std::size_t end_path() const {
    if (chance_.depth() < asked_.size()) refuse_state("it asks other questions");
    return asked_.size();
  }

  bool next_path() { return chance_.next_path(); }
  Rational probability() const { return chance_.probability(); }

  [[noreturn]] static void refuse_state(const std::string& what) {
    throw Error(what + " when it gets the same answers; does it remember the call before?");
  }

 private:
  using Question = std::pair<Key, std::vector<std::uint64_t>>;  // with the weights

  EnumeratedChance chance_;
  std::vector<Question> asked_;  // or to be asked on this path
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
  if (bound == 0) throw Error("it asks for a number below 0");
  if (bound > bound_max) {
    throw Error("it asks for a number below " + std::to_string(bound) + "; give it weights that sum to 65536 at most");
  }
  const std::vector<std::uint64_t> sides(bound, 1);
  return chance_.pick({0, asked_++, Purpose::target}, sides);
}

SamplerLaw law_of(const TextSampler& sampler) {
  SamplerLaw result;
  ForeignChance chance;
  const auto run_path = [&] {
    chance.begin_path();
    const std::vector<Token> text = sampler(chance);
    return std::pair(text, chance.end_path());
  };
  try {
    do {
      if (++result.paths > paths_max) throw Error("it has more than a million paths; give it smaller weights");
      const auto [text, questions] = run_path();
      result.law[text] += chance.probability();
      const auto again = run_path();
      if (again.second != questions) ForeignChance::refuse_state("it asks other questions");
      if (again.first != text) ForeignChance::refuse_state("it returns another text");
    } while (chance.next_path());
  } catch (const Error& wrong) {
    result.fault = wrong.what();
  }
  return result;
}

Law law_from(const std::vector<std::uint64_t>& weights) {
  boost::multiprecision::cpp_int sum = 0;
  for (const std::uint64_t weight : weights) sum += weight;
  if (sum == 0) throw Error("a law of weights needs one that is positive");
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
