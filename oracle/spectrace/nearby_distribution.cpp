// SPDX-License-Identifier: MIT
#include "oracle/spectrace/nearby_distribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>

#include "kernels/math64.h"
#include "oracle/sequential/rounded_distribution.h"
#include "ref/acceptance/penalties.h"

namespace draftproof::spectrace {
namespace {

/// Samplers of llama.cpp and others that a trace has no field for.
constexpr std::array<std::string_view, 12> other_samplers = {"dry",        "top_n_sigma", "typ_p",   "typical_p",
                                                             "xtc",        "mirostat",    "tfs_z",   "top_a",
                                                             "adaptive_p", "logit_bias",  "grammar", "infill"};

/// Applies the biases and the penalties of ref/acceptance/sampler.h, in doubles.
std::vector<double> adjusted(std::span<const double> logits, const Sampling& s, std::span<const Token> text) {
  std::vector<double> z(logits.begin(), logits.end());
  for (const LogitBias& one : s.logit_bias) {
    if (static_cast<std::size_t>(one.token) < z.size()) z[one.token] += one.bias;
  }
  const auto taken_by_dry = [&] {
    if (!s.dries()) return;
    std::vector<float> taken(z.size());
    penalize_repetition(taken, s, {text, {}});
    for (std::size_t token = 0; token < z.size(); ++token) z[token] += double{taken[token]};
  };
  if (!s.penalizes()) return taken_by_dry(), z;
  const auto all = static_cast<std::ptrdiff_t>(text.size());
  const std::ptrdiff_t seen = s.repeat_last_n < 0 ? all : std::min<std::ptrdiff_t>(all, s.repeat_last_n);
  std::map<Token, int> counts;
  for (const Token token : text.last(static_cast<std::size_t>(seen))) ++counts[token];
  for (const auto& [token, count] : counts) {
    if (static_cast<std::size_t>(token) >= z.size()) continue;
    double& logit = z[token];
    if (s.repeats()) logit = logit < 0 ? logit * s.repeat_penalty : logit / s.repeat_penalty;
    logit -= static_cast<double>(s.presence_penalty) + static_cast<double>(s.frequency_penalty) * count;
  }
  taken_by_dry();
  return z;
}

/// Probabilities of ranked tokens at a temperature, and the sum before each place.
struct Ranked {
  std::vector<double> u;
  std::vector<double> before;  // [i]: sum of u[0] ... u[i - 1]

  Ranked(const std::vector<double>& z, const std::vector<Token>& rank, double temperature) {
    double best = z[rank.front()];
    for (const Token token : rank) best = std::max(best, z[token]);
    double sum = 0;
    for (const Token token : rank) {
      u.push_back(exp64((z[token] - best) / temperature));
      sum += u.back();
    }
    before.push_back(0);
    for (double& value : u) {
      value /= sum;
      before.push_back(before.back() + value);
    }
  }
  /// Returns how many probabilities lie above a bound.
  std::size_t above(double bound) const {
    return static_cast<std::size_t>(
        std::lower_bound(u.begin(), u.end(), bound, [](double a, double b) { return a > b; }) - u.begin());
  }
  std::size_t at_least(double bound) const {
    return static_cast<std::size_t>(
        std::lower_bound(u.begin(), u.end(), bound, [](double a, double b) { return a >= b; }) - u.begin());
  }
};

/// How many of the likeliest tokens are kept: by our cut, by every allowed cut, and by some allowed cut.
struct Kept {
  std::size_t own = 0;
  std::size_t sure = 0;
  std::size_t possible = 0;
  bool any_cut = false;
};

void cut_top_k(const Ranked& r, std::size_t k, double slack, Kept& kept) {
  if (k < kept.own) kept.sure = std::min({kept.sure, k, r.above(r.u[k] + 2 * slack)});
  if (k < kept.possible) kept.possible = std::min(kept.possible, std::max(k, r.at_least(r.u[k - 1] - 2 * slack)));
  kept.own = std::min(kept.own, k);
}

void cut_top_p(const Ranked& r, double top_p, double slack, Kept& kept) {
  const double own = top_p * r.before[kept.own];
  const double min = top_p * r.before[kept.sure] - 2 * slack;
  const double max = top_p * r.before[kept.possible] + 2 * slack;
  const auto first_that_is_not = [](std::size_t count, const auto& keeps) {
    std::size_t low = 0;
    for (std::size_t high = count; low < high;) {
      const std::size_t middle = low + (high - low) / 2;
      if (keeps(middle)) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const std::size_t was_possible = kept.possible;
  kept.own = first_that_is_not(kept.own, [&](std::size_t i) { return r.before[i] < own; });
  kept.possible = first_that_is_not(
      was_possible, [&](std::size_t i) { return r.before[std::min(i, r.above(r.u[i] + 2 * slack))] < max; });
  kept.sure = first_that_is_not(kept.sure, [&](std::size_t i) {
    return r.before[std::min(was_possible, r.at_least(r.u[i] - 2 * slack))] - r.u[i] < min;
  });
}

void cut_min_p(const Ranked& r, double min_p, double slack, Kept& kept) {
  kept.own = std::min(kept.own, r.at_least(min_p * r.u[0]));
  kept.sure = std::min(kept.sure, r.at_least(min_p * (r.u[0] + slack) + slack));
  kept.possible = std::min(kept.possible, r.at_least(min_p * (r.u[0] - slack) - slack));
}

/// Returns the allowed tokens: where the sampling cuts, in descending order of z, equal ones ascending; else ascending.
std::vector<Token> ranked_tokens(const std::vector<double>& z, const Sampling& sampling, const TokenSet* allowed) {
  std::vector<Token> rank(z.size());
  std::iota(rank.begin(), rank.end(), Token{0});
  if (allowed != nullptr) std::erase_if(rank, [&](Token token) { return !allowed->has(token); });
  if (!cuts(sampling)) return rank;
  std::sort(rank.begin(), rank.end(), [&](Token a, Token b) {
    const double of_a = z[a], of_b = z[b];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  return rank;
}

/// How far two distributions are apart at most, where a mask leaves the ranked tokens of distributions that are `slack`
/// apart, as those of two cuts that keep the same tokens (nearby_distribution.h).
double masked(double slack, const std::vector<double>& z, const std::vector<Token>& rank, double temperature) {
  const double best = *std::max_element(z.begin(), z.end());
  double left = 1;
  for (const double at : {1.0, temperature}) {  // a cut may come before the temperature
    double all = 0, kept = 0;
    for (const double logit : z) all += exp64((logit - best) / at);
    for (const Token token : rank) kept += exp64((z[token] - best) / at);
    left = std::min(left, kept / all);
  }
  return 2 * slack < left ? 2 * slack / left : 1;
}

/// Applies the cuts in `order`. Returns nothing where a sampler is unknown or its effect at its place is.
std::optional<Kept> cut(const std::vector<double>& z, const std::vector<Token>& rank, const Sampling& sampling,
                        const std::vector<std::string>& order, double slack) {
  if (unknown_sampler(order) || sampler_of_own_numerics(sampling) != nullptr) return std::nullopt;
  const auto size = rank.size();
  Kept kept{size, size, size, false};
  double temperature = 1;
  std::optional<Ranked> seen;  // by the next cut
  for (const std::string& name : samplers_in_effect(order, sampling)) {
    if (name == "penalties") {
      if (kept.any_cut) return std::nullopt;
      continue;
    }
    if (name == "temperature") {
      temperature = sampling.temperature;
      seen.reset();
      continue;
    }
    const auto k = static_cast<std::size_t>(sampling.top_k);
    if (name == "top_k" && k >= size) continue;
    if (!seen) seen.emplace(z, rank, temperature);
    if (name == "top_k") cut_top_k(*seen, k, slack, kept);
    if (name == "top_p") cut_top_p(*seen, sampling.top_p, slack, kept);
    if (name == "min_p") cut_min_p(*seen, sampling.min_p, slack, kept);
    kept.sure = std::min(kept.sure, kept.own);
    kept.possible = std::max(kept.possible, kept.own);
    kept.any_cut = true;
  }
  return kept;
}

}  // namespace

std::optional<NextToken> without(const Distribution& p, const std::vector<Token>& left_out, double slack) {
  std::vector<Token> tokens = p.tokens();
  std::vector<std::uint64_t> weights = p.weights();
  std::uint64_t out = 0;
  for (std::size_t i = tokens.size(); i-- > 0;) {
    if (std::find(left_out.begin(), left_out.end(), tokens[i]) == left_out.end()) continue;
    out += weights[i];
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i));
    weights.erase(weights.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (tokens.empty()) return std::nullopt;
  const double kept = 1 - static_cast<double>(out) / static_cast<double>(Distribution::total);
  std::uint64_t left = Distribution::total;
  for (std::uint64_t& weight : weights) {
    weight = std::max(static_cast<std::uint64_t>(static_cast<double>(weight) / kept), std::uint64_t{1});
    left -= weight;
  }
  *std::max_element(weights.begin(), weights.end()) += left;  // modulo 2^64 where it is negative
  return NextToken{Distribution::exact(tokens, weights), std::min(1.0, 2 * slack / kept)};
}

bool cuts(const Sampling& s) noexcept {
  return s.top_k > 0 || (s.top_p > 0 && s.top_p < 1) || s.min_p > 0 || s.applies(SamplerStep::top_n_sigma) ||
         s.applies(SamplerStep::typ_p) || s.applies(SamplerStep::xtc);
}

const char* sampler_of_own_numerics(const Sampling& sampling) noexcept {
  for (const SamplerStep step : {SamplerStep::top_n_sigma, SamplerStep::typ_p, SamplerStep::xtc}) {
    if (sampling.applies(step)) return name_of(step);
  }
  if (sampling.feeds_back()) return sampling.mirostat == 2 ? "mirostat" : "adaptive_p";
  return sampling.dynatemp_range > 0 ? "dynatemp_range" : nullptr;
}

const std::vector<KnownOrder>& known_orders() {
  static const std::vector<KnownOrder> orders = {
      {"Hugging Face", {"penalties", "temperature", "top_k", "top_p", "min_p"}},
      {"vLLM", {"penalties", "temperature", "min_p", "top_k", "top_p"}},
      {"llama.cpp", {"penalties", "top_k", "top_p", "min_p", "temperature"}},
      {"mlx-lm", {"penalties", "top_p", "min_p", "top_k", "temperature"}},
  };
  return orders;
}

const std::vector<std::string>& our_order() { return known_orders().front().samplers; }

std::optional<std::string> unknown_sampler(const std::vector<std::string>& order) {
  const auto known = [](const std::string& name) {
    return std::ranges::find(our_order(), name) != our_order().end() ||
           std::ranges::find(other_samplers, name) != other_samplers.end();
  };
  const auto found = std::ranges::find_if_not(order, known);
  return found == order.end() ? std::nullopt : std::optional(*found);
}

std::vector<std::string> samplers_in_effect(const std::vector<std::string>& order, const Sampling& sampling) {
  const bool cuts_by_p = sampling.top_p > 0 && sampling.top_p < 1;
  const bool cuts_by_min_p = sampling.min_p > 0 && sampling.min_p <= 1;
  const bool cuts = sampling.top_k > 0 || cuts_by_p || cuts_by_min_p;
  const auto in_effect = [&](const std::string& name) {
    return name == "penalties"     ? sampling.penalizes()
           : name == "temperature" ? cuts && sampling.temperature != 1  // else its place does not matter
           : name == "top_k"       ? sampling.top_k > 0
           : name == "top_p"       ? cuts_by_p
           : name == "min_p"       ? cuts_by_min_p
                                   : false;
  };
  std::vector<std::string> names;
  for (const std::vector<std::string>* const list : {&order, &our_order()}) {
    for (const std::string& name : *list) {
      if (in_effect(name) && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

bool NearbyDistribution::allows(Token token) const {
  return std::binary_search(possible.begin(), possible.end(), token);
}

std::optional<NearbyDistribution> nearby_distribution(std::span<const double> logits, const Sampling& sampling,
                                                      const std::vector<std::string>& order,
                                                      std::span<const Token> text, double slack,
                                                      const TokenSet* allowed) {
  const std::vector<double> z = adjusted(logits, sampling, text);
  const std::vector<Token> rank = ranked_tokens(z, sampling, allowed);
  if (allowed != nullptr) slack = masked(slack, z, rank, sampling.temperature);
  const auto kept = cut(z, rank, sampling, order, slack);
  if (!kept) return std::nullopt;
  const Ranked distribution(z, rank, sampling.temperature);
  std::vector<std::pair<Token, double>> own;
  for (std::size_t i = 0; i < kept->own; ++i) {
    if (distribution.u[i] > 0) own.emplace_back(rank[i], distribution.u[i] / distribution.before[kept->own]);
  }
  std::sort(own.begin(), own.end());
  std::vector<Token> tokens;
  std::vector<double> weights;
  for (const auto& [token, weight] : own) {
    tokens.push_back(token);
    weights.push_back(weight);
  }
  NearbyDistribution near;
  near.p = rounded_distribution(tokens, weights, 0x1p-52).distribution;
  const double fringe = distribution.before[kept->possible] - distribution.before[kept->sure];
  near.slack = kept->any_cut ? std::min(1.0, (2 * slack + fringe) / distribution.before[kept->own]) : slack;
  near.possible.assign(rank.begin(), rank.begin() + static_cast<std::ptrdiff_t>(kept->possible));
  std::sort(near.possible.begin(), near.possible.end());
  return near;
}

BestToken::BestToken(std::span<const double> logits, const Sampling& sampling, std::span<const Token> text,
                     const TokenSet* allowed)
    : logits_(adjusted(logits, sampling, text)) {
  for (std::size_t token = 0; allowed != nullptr && token < logits_.size(); ++token) {
    if (!allowed->has(static_cast<Token>(token))) logits_[token] = -std::numeric_limits<double>::infinity();
  }
  best_ = static_cast<Token>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
  const double best = logits_[best_];
  for (const double logit : logits_) sum_ += exp64(logit - best);
}

double BestToken::gap(Token other) const { return logits_[best_] - logits_[other]; }

double BestToken::gap_to_second() const {
  double gap = std::numeric_limits<double>::infinity();
  for (std::size_t token = 0; token < logits_.size(); ++token) {
    if (static_cast<Token>(token) != best_) gap = std::min(gap, logits_[best_] - logits_[token]);
  }
  return gap;
}

double BestToken::exchanged(double scale) const {
  double sum = -0.5;  // the best token's own term
  for (const double logit : logits_) {
    const double gap = logits_[best_] - logit;
    if (gap < 100 * scale) sum += 1 / (1 + exp64(gap / scale));
  }
  return std::clamp(sum, 0.0, 1.0);
}

double BestToken::gap_beyond_numerics() const {
  double sum = 0;
  long allowed = 0;
  for (const double logit : logits_) {
    if (std::isinf(logit)) continue;  // forbidden
    sum += logit;
    ++allowed;
  }
  return std::max(8.0, (logits_[best_] - sum / static_cast<double>(allowed)) / 2);
}

double BestToken::apart(Token other) const { return std::isinf(gap(other)) ? 1 : (1 - exp64(-gap(other))) / sum_; }

}  // namespace draftproof::spectrace
