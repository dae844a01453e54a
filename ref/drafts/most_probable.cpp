// SPDX-License-Identifier: MIT
#include "ref/drafts/most_probable.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <ranges>
#include <utility>

#include "ref/acceptance/sampler.h"

namespace draftproof {

std::vector<Token> most_probable(std::span<const float> logits, int count) {
  const auto logit = [&](Token token) { return logits[static_cast<std::size_t>(token)]; };
  const auto before = [&](Token a, Token b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; };
  std::vector<Token> best(std::min(static_cast<std::size_t>(count), logits.size()));
  std::ranges::partial_sort_copy(std::views::iota(Token{0}, static_cast<Token>(logits.size())), best, before);
  while (!best.empty() && logit(best.back()) == -std::numeric_limits<float>::infinity()) best.pop_back();
  return best;
}

std::vector<ProbableToken> most_probable(std::span<const float> logits, int count, Sampler& sampler) {
  std::vector<Distribution> row;
  row.push_back(sampler.blank());
  sampler.read(logits, {.temperature = 1}, {}, row[0]);
  std::vector<ProbableToken> best;
  for (const Token token : most_probable(logits, count)) {
    const std::uint64_t weight = row[0].weight(token);
    if (weight == 0) break;  // weights fall with the logits
    best.push_back({token, static_cast<double>(weight) / static_cast<double>(Distribution::total)});
  }
  sampler.give_back(row);
  return best;
}

bool MinProbability::stops_before(std::span<const float> logits) const {
  if (!(min_ > 0)) return false;
  Sampler sampler;
  return most_probable(logits, 1, sampler)[0].probability < min_;
}

}  // namespace draftproof
