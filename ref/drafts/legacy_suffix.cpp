// SPDX-License-Identifier: MIT
#include "ref/drafts/legacy_suffix.h"

#include <cmath>
#include <map>

namespace draftproof {
namespace {

/// Where occurrences of a string end.
using Ends = std::vector<int>;

/// What follows most often there, the smallest of several, and how often; 0 times when nothing follows.
std::pair<Token, int> most_frequent(std::span<const Token> text, const Ends& ends) {
  std::map<Token, int> counts;
  for (const int end : ends) {
    if (static_cast<std::size_t>(end) < text.size()) ++counts[text[static_cast<std::size_t>(end)]];
  }
  std::pair<Token, int> best;
  for (const auto& [token, count] : counts) {
    if (count > best.second) best = {token, count};
  }
  return best;
}

}  // namespace

/// Returns the best candidate for the ends of `text`, of those in `learned`.
std::vector<Token> LegacySuffixDraft::speculate(std::span<const Token> learned, std::span<const Token> text) const {
  std::vector<Token> best;
  float best_score = 0;
  const int longest = static_cast<int>(std::min(text.size(), static_cast<std::size_t>(settings_.depth)));
  Ends ends;  // of the last len tokens
  for (std::size_t end = 1; end <= learned.size(); ++end) {
    if (learned[end - 1] == text.back()) ends.push_back(static_cast<int>(end));
  }
  for (int len = 1; len <= longest; ++len) {
    if (len > 1) {
      const Token before = text[text.size() - static_cast<std::size_t>(len)];
      std::erase_if(ends, [&](int end) { return end < len || learned[static_cast<std::size_t>(end - len)] != before; });
    }
    if (ends.empty()) break;
    if (len < settings_.min_match) continue;
    const double wanted = std::min<double>(settings_.m, std::floor(len * settings_.factor + settings_.offset + 1e-6));
    std::vector<Token> tokens;
    float score = 0;
    float p = 1;
    Ends at = ends;
    while (static_cast<double>(tokens.size()) < wanted && len + std::ssize(tokens) < settings_.depth) {
      const auto [token, count] = most_frequent(learned, at);
      if (count == 0) break;
      p *= static_cast<float>(count) / static_cast<float>(at.size());
      if (p < min_) break;
      score += p;
      tokens.push_back(token);
      std::erase_if(at, [&, next = token](int end) {
        return static_cast<std::size_t>(end) >= learned.size() || learned[static_cast<std::size_t>(end)] != next;
      });
      for (int& end : at) ++end;
    }
    if (score > best_score) {
      best_score = score;
      best = std::move(tokens);
    }
  }
  return best;
}

std::vector<Token> LegacySuffixDraft::draft(std::span<const Token> text) {
  std::vector<Token> tokens = speculate(text, text);
  if (settings_.corpus) {
    std::vector<Token> other = speculate(settings_.corpus->text(), text);
    if (other.size() > tokens.size()) tokens = std::move(other);
  }
  drafted_ = tokens.size();
  return tokens;
}

void LegacySuffixDraft::accept(int accepted) {
  const auto lowest = static_cast<float>(settings_.min_prob);
  if (2 * static_cast<std::size_t>(accepted) >= drafted_) {
    low_ = 0;
    if (min_ > lowest) min_ = std::max(min_ - 0.05F, lowest);
  } else if (++low_ == 3) {
    min_ = std::min(min_ + 0.1F, 0.5F);
    low_ = 0;
  }
}

void LegacySuffixDraft::reset() {
  min_ = 0.1F;
  low_ = 0;
  drafted_ = 0;
}

}  // namespace draftproof
