// SPDX-License-Identifier: MIT
#include "ref/acceptance/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/exp.h"
#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The last `repeat_last_n` tokens of the history, sorted, so that equal ones lie together.
std::vector<Token> penalised_window(const History& history, int repeat_last_n) {
  const std::size_t size = history.committed.size() + history.guessed.size();
  const std::size_t kept = repeat_last_n < 0 ? size : std::min(size, static_cast<std::size_t>(repeat_last_n));
  const std::size_t of_guessed = std::min(kept, history.guessed.size());
  const auto old = history.committed.last(kept - of_guessed);
  const auto fresh = history.guessed.last(of_guessed);
  std::vector<Token> window(old.begin(), old.end());
  window.insert(window.end(), fresh.begin(), fresh.end());
  std::sort(window.begin(), window.end());
  return window;
}

std::vector<float> penalised(std::span<const float> logits, const Sampling& sampling, const History& history) {
  std::vector<float> result(logits.begin(), logits.end());
  const std::vector<Token> window = penalised_window(history, sampling.repeat_last_n);
  const float repeat = sampling.repeats() ? sampling.repeat_penalty : 1.0f;
  for (auto run = window.begin(); run != window.end();) {
    const auto end = std::upper_bound(run, window.end(), *run);
    REQUIRE(*run >= 0, "tokens are not negative");
    if (static_cast<std::size_t>(*run) >= result.size()) break;
    float& z = result[static_cast<std::size_t>(*run)];
    z = (z < 0 ? z * repeat : z / repeat) - sampling.presence_penalty;
    z = z - sampling.frequency_penalty * static_cast<float>(end - run);
    run = end;
  }
  return result;
}

[[noreturn]] void throw_unusable(std::span<const float> z) {
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (z[i] < infinity) continue;
    throw Error("the logit of token " + std::to_string(i) + " is " + (std::isnan(z[i]) ? "NaN" : "+infinity") +
                "; check the weights of the model and the penalties");
  }
  throw Error("not one of the " + std::to_string(z.size()) +
              " logits of a row is finite; check the weights of the model and the penalties");
}

/// The largest logit; throws unless it is finite and no logit is NaN.
float best_of(std::span<const float> z) {
  float best = -infinity;
  bool usable = true;
  for (const float value : z) {
    usable &= value < infinity;
    best = value > best ? value : best;
  }
  if (!usable || best == -infinity) throw_unusable(z);
  return best;
}

/// The `count` best tokens in the total order, ascending. Selecting the worst value that survives, instead of sorting
/// tokens, touches the row three times in order.
std::vector<Token> best_tokens(std::span<const float> z, std::size_t count) {
  std::vector<float> values(z.begin(), z.end());
  const auto worst = values.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::nth_element(values.begin(), worst, values.end(), std::greater<>());
  std::size_t ties = count;
  for (const float value : z) ties -= value > *worst;

  std::vector<Token> tokens;
  tokens.reserve(count);
  for (std::size_t i = 0; i < z.size(); ++i) {
    const bool tied = z[i] == *worst;
    if (z[i] < *worst || (tied && ties == 0)) continue;
    ties -= tied;
    tokens.push_back(static_cast<Token>(i));
  }
  return tokens;
}

std::vector<std::uint64_t> shares_of(std::span<const float> z, float best, float temperature) {
  // Plain pointers and two passes: the first one, with the arithmetic, vectorises.
  std::vector<float> shares(z.size());
  const float* from = z.data();
  float* to = shares.data();
  for (std::size_t i = 0; i < z.size(); ++i) to[i] = exponential((from[i] - best) / temperature) * 0x1p+40f;
  std::vector<std::uint64_t> result;
  result.reserve(z.size());
  for (const float share : shares) result.push_back(static_cast<std::uint64_t>(static_cast<std::int64_t>(share)));
  return result;
}

/// Clears the shares outside the nucleus. Entries ascend by token, so their index breaks ties. They are put in order
/// only as far as the nucleus reaches, in chunks that grow.
void apply_top_p(std::span<const float> z, float top_p, std::span<std::uint64_t> shares) {
  std::uint64_t sum = 0;
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    sum += shares[i];
    if (shares[i] > 0) order.push_back(static_cast<std::uint32_t>(i));
  }
  const double limit = static_cast<double>(top_p) * static_cast<double>(sum);
  const auto precedes = [&](std::uint32_t a, std::uint32_t b) { return z[a] != z[b] ? z[a] > z[b] : a < b; };

  std::uint64_t before = 0;
  auto next = order.begin();
  auto sorted = order.begin();
  for (std::ptrdiff_t chunk = 64; next != order.end() && static_cast<double>(before) < limit; ++next) {
    if (next == sorted) {
      sorted += std::min(chunk, order.end() - sorted);
      chunk *= 4;
      if (sorted != order.end()) std::nth_element(next, sorted, order.end(), precedes);
      std::sort(next, sorted, precedes);
    }
    before += shares[*next];
  }
  for (; next != order.end(); ++next) shares[*next] = 0;
}

}  // namespace

Distribution distribution_of(std::span<const float> logits, const Sampling& sampling, const History& history) {
  std::vector<float> rewritten;
  std::span<const float> z = logits;
  if (sampling.penalises()) {
    rewritten = penalised(logits, sampling, history);
    z = rewritten;
  }
  const float best = best_of(z);
  if (sampling.greedy()) {
    const auto first = std::find(z.begin(), z.end(), best);
    return Distribution::point(static_cast<Token>(first - z.begin()));
  }
  if (!std::isfinite(sampling.temperature)) throw Error("the temperature is not finite; give a number of 0 or more");

  std::vector<Token> tokens;  // empty: all of them
  if (sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < z.size()) {
    tokens = best_tokens(z, static_cast<std::size_t>(sampling.top_k));
    std::vector<float> survivors;
    survivors.reserve(tokens.size());
    for (const Token token : tokens) survivors.push_back(z[static_cast<std::size_t>(token)]);
    rewritten = std::move(survivors);
    z = rewritten;
  }
  std::vector<std::uint64_t> shares = shares_of(z, best, sampling.temperature);
  if (sampling.top_p > 0 && sampling.top_p < 1) apply_top_p(z, sampling.top_p, shares);
  if (sampling.min_p > 0 && sampling.min_p <= 1) {
    // The best token survives all of the above and has the largest share there is, exp(0).
    const double least = static_cast<double>(sampling.min_p) * static_cast<double>(Distribution::largest_share);
    for (std::uint64_t& share : shares)
      if (static_cast<double>(share) < least) share = 0;
  }
  return Distribution::quantised(tokens, shares);
}

}  // namespace draftproof
