// SPDX-License-Identifier: MIT
// The texts that decoding can give, with their exact probabilities: every path of random numbers is followed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "oracle/exact/enumerate.h"
#include "ref/drafts/none.h"
#include "tests/decoding/support.h"

namespace draftproof {

using ExactTexts = std::map<std::vector<Token>, Rational>;

/// `open` makes a draft for so many positions; `look` sees the trace of every path.
inline ExactTexts exact_texts(
    Model& target, const Rule& rule, const Asked& request,
    const std::function<std::unique_ptr<Draft>(RandomSource& random, int capacity)>& open,
    const std::function<void(const Trace&)>& look = [](const Trace&) {}) {
  ExactTexts texts;
  EnumeratedSource random;
  do {
    random.begin_path();
    const std::unique_ptr<Draft> draft = open(random, request.positions());
    Decoder decoder(target, *draft, rule, random, request, request, Recording::digests);
    decoder.run();
    texts[decoder.trace().output] += random.probability();
    look(decoder.trace());
  } while (random.next_path());
  return texts;
}

inline ExactTexts exact_plain_texts(Model& target, const Asked& request) {
  return exact_texts(target, matching, request, [](RandomSource&, int) { return std::make_unique<NoDraft>(); });
}

/// The distance in total variation.
inline Rational distance(const ExactTexts& a, const ExactTexts& b) {
  Rational sum = 0;
  for (const auto& [text, probability] : a) {
    const auto other = b.find(text);
    sum += abs(Rational(probability - (other == b.end() ? Rational(0) : other->second)));
  }
  for (const auto& [text, probability] : b) {
    if (!a.contains(text)) sum += probability;
  }
  return sum / 2;
}

}  // namespace draftproof
