// SPDX-License-Identifier: MIT
#include "oracle/sequential/pooled_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/math64.h"
#include "oracle/sequential/e_process.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

/// The logarithm of the average of exp(log).
double log_of_average(std::span<const double> logs) {
  const double max = *std::max_element(logs.begin(), logs.end());
  if (std::isinf(max)) return max;
  double sum = 0;
  for (const double log : logs) sum += exp64(log - max);
  return max + log64(sum / static_cast<double>(logs.size()));
}

}  // namespace

void PooledEvidence::add(std::span<const double> by_bet, long tokens) {
  if (logs_.empty()) logs_.resize(by_bet.size());
  REQUIRE(logs_.size() == by_bet.size(), "the same bets are made on every text");
  for (std::size_t bet = 0; bet < logs_.size(); ++bet) {
    // A bet that is ruined stays so, whatever comes, but for a token that cannot be: all of them have that.
    logs_[bet] = std::isinf(by_bet[bet]) ? by_bet[bet] : logs_[bet] + log64(by_bet[bet]);
  }
  tokens_ += tokens;
  const double log = log_of_average(logs_);
  max_log_ = std::max(max_log_, log);
  curve_.emplace_back(tokens_, exp64(log));
}

double PooledEvidence::e_value() const noexcept { return exp64(max_log_); }

bool PooledEvidence::alarm() const noexcept { return max_log_ >= -log64(alpha_); }

std::string PooledEvidence::suspect() const {
  const auto best = std::max_element(logs_.begin(), logs_.end());
  return logs_.empty() || *best <= 0 ? "none" : EProcess::name_of_bet(static_cast<std::size_t>(best - logs_.begin()));
}

std::vector<std::pair<long, double>> PooledEvidence::curve() const {
  constexpr std::size_t points_max = 512;
  const std::size_t every = (curve_.size() + points_max - 1) / points_max;
  std::vector<std::pair<long, double>> points;
  for (std::size_t i = 0; i < curve_.size(); ++i) {
    if ((curve_.size() - 1 - i) % every == 0) points.push_back(curve_[i]);
  }
  return points;
}

double PooledEvidence::smallest_deviation() const {
  if (tokens_ == 0) return 1;
  const auto n = static_cast<double>(tokens_);
  const double needed = log64(static_cast<double>(logs_.size()) / alpha_) + 2 * log64(100) + n * 0x1p-30;
  return std::min(1.0, std::sqrt(needed / n));
}

std::string PooledEvidence::describe() const {
  if (std::isinf(max_log_)) return fmt::format("one of {} tokens has probability 0 under the target", tokens_);
  const std::string found =
      fmt::format("e-value {:.3g} after {} tokens of {} trials", e_value(), tokens_, curve_.size());
  if (alarm()) return found + ": they do not have the target's distribution; this looks like '" + suspect() + "'";
  return fmt::format("{}, alarm at {:.2g}", found, 1 / alpha_);
}

}  // namespace draftproof
