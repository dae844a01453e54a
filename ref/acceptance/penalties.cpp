// SPDX-License-Identifier: MIT
#include "ref/acceptance/penalties.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

/// Returns the last `count` tokens of the history; below 0: all.
std::vector<Token> last_tokens(const History& history, int count) {
  const std::size_t size = history.committed.size() + history.drafted.size();
  const std::size_t kept = count < 0 ? size : std::min(size, static_cast<std::size_t>(count));
  const std::size_t drafted = std::min(kept, history.drafted.size());
  const auto old = history.committed.last(kept - drafted);
  const auto fresh = history.drafted.last(drafted);
  std::vector<Token> tokens(old.begin(), old.end());
  tokens.insert(tokens.end(), fresh.begin(), fresh.end());
  return tokens;
}

/// Returns how many of the first tokens each rest of `tokens` begins with (the Z-algorithm).
std::vector<std::size_t> shared_beginnings(const std::vector<Token>& tokens) {
  std::vector<std::size_t> lengths(tokens.size());
  std::size_t begin = 0, end = 0;  // of the rest that reaches furthest: tokens [begin, end) are also the first ones
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    std::size_t n = i < end ? std::min(end - i, lengths[i - begin]) : 0;
    while (i + n < tokens.size() && tokens[n] == tokens[i + n]) ++n;
    if (i + n > end) {
      begin = i;
      end = i + n;
    }
    lengths[i] = n;
  }
  return lengths;
}

constexpr double largest = std::numeric_limits<float>::max();

double power(double base, std::size_t exponent) {
  double product = 1;
  for (; exponent > 0 && product < largest; --exponent) product *= base;
  return std::min(product, largest);
}

}  // namespace

void penalize(std::span<float> z, const Sampling& sampling, const History& history) {
  std::vector<Token> tokens = last_tokens(history, sampling.repeat_last_n);
  std::sort(tokens.begin(), tokens.end());  // so that equal tokens are adjacent
  const float repeat = sampling.repeats() ? sampling.repeat_penalty : 1.0f;
  for (auto first = tokens.begin(); first != tokens.end();) {
    const auto end = std::upper_bound(first, tokens.end(), *first);
    REQUIRE(*first >= 0, "tokens are not negative");
    if (static_cast<std::size_t>(*first) >= z.size()) break;
    float& logit = z[*first];
    logit = (logit < 0 ? logit * repeat : logit / repeat) - sampling.presence_penalty;
    logit = logit - sampling.frequency_penalty * static_cast<float>(end - first);
    first = end;
  }
}

void penalize_repetition(std::span<float> z, const Sampling& sampling, const History& history) {
  std::vector<Token> tokens = last_tokens(history, sampling.dry_penalty_last_n);
  std::reverse(tokens.begin(), tokens.end());
  const auto breaks = [&](Token token) { return std::ranges::binary_search(sampling.dry_breakers, token); };
  const auto longest = static_cast<std::size_t>(std::ranges::find_if(tokens, breaks) - tokens.begin());
  const auto allowed = static_cast<std::size_t>(std::max(0, sampling.dry_allowed_length));
  if (tokens.size() <= allowed || longest < allowed) return;
  const std::vector<std::size_t> lengths = shared_beginnings(tokens);
  std::vector<std::size_t> of_token(z.size());  // the longest repetition that it goes on with, and 1; 0: none
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const std::size_t length = std::min(lengths[i], longest);
    const Token next = tokens[i - 1];
    if (length < allowed || static_cast<std::size_t>(next) >= z.size() || breaks(next)) continue;
    of_token[next] = std::max(of_token[next], length + 1);
  }
  for (std::size_t token = 0; token < z.size(); ++token) {
    if (of_token[token] == 0) continue;
    const double taken = double{sampling.dry_multiplier} * power(sampling.dry_base, of_token[token] - 1 - allowed);
    z[token] = z[token] - static_cast<float>(std::clamp(taken, -largest, largest));
  }
}

void throw_unusable(std::span<const float> z, const TokenSet* allowed) {
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (z[i] < std::numeric_limits<float>::infinity()) continue;
    throw Error("the logit of token " + std::to_string(i) + " is " + (std::isnan(z[i]) ? "NaN" : "+infinity") +
                "; check the weights of the model and the penalties");
  }
  if (allowed != nullptr) {
    throw Error(
        "no token of the vocabulary that has a finite logit may follow by the constraint of the output; check "
        "the grammar");
  }
  throw Error("none of the " + std::to_string(z.size()) +
              " logits of a row is finite; check the weights of the model and the penalties");
}

}  // namespace draftproof
