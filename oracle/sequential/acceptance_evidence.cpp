// SPDX-License-Identifier: MIT
#include "oracle/sequential/acceptance_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "oracle/sequential/wealth.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr double lowered = 1 - 0x1p-30;
constexpr double grid = 0x1p-20;  // of coins

}  // namespace

AcceptanceEvidence::AcceptanceEvidence(double alpha, Side side) : alpha_(alpha) {
  const auto bets = std::ranges::count_if(odds, [&](double one) { return side == Side::both || one < 1; });
  kept_ = 1.0 / static_cast<double>(bets + 1);
  for (std::size_t i = 0; i < odds.size(); ++i) wealth_[i] = side == Side::both || odds[i] < 1 ? kept_ : 0;
}

void AcceptanceEvidence::observe(double probability, bool accepted, double rounding) {
  REQUIRE(probability >= 0 && probability <= 1, "the argument is a probability");
  REQUIRE(rounding >= 0, "rounding is not negative");
  ++judged_;
  accepted_ += accepted;
  expected_ += probability;
  const double highest = probability * (1 + rounding) + grid;
  const double lowest = std::max(probability * (1 - rounding) - grid, 0.0);
  if (probability == 0 || highest >= 1 || max_ >= wealth_enough) return;

  for (std::size_t i = 0; i < odds.size(); ++i) {
    const double expectation = 1 + (odds[i] > 1 ? highest : lowest) * (odds[i] - 1);
    wealth_[i] *= lowered * (accepted ? odds[i] : 1) / expectation;
  }
  const double wealth = std::accumulate(wealth_.begin(), wealth_.end(), kept_);
  max_ = std::max(max_, wealth);
  min_ = std::min(min_, wealth);
  at_lowest_ = wealth == min_;
  if (judged_ % spread_interval != 0) return;
  const auto bets = std::ranges::count_if(wealth_, [](double of_bet) { return of_bet > 0; });
  const double spread = spread_share * wealth / static_cast<double>(bets + 1);
  for (double& of_bet : wealth_) {
    if (of_bet > 0) of_bet = (1 - spread_share) * of_bet + spread;
  }
  kept_ = (1 - spread_share) * kept_ + spread;
}

void AcceptanceEvidence::forfeit(std::optional<bool> accepted) {
  for (std::size_t i = 0; i < odds.size(); ++i) {
    const bool keeps = accepted && *accepted == (odds[i] > 1);
    wealth_[i] *= lowered * (keeps ? 1 : std::min(odds[i], 1 / odds[i]));
  }
}

std::string AcceptanceEvidence::suspect() const {
  const auto max = std::max_element(wealth_.begin(), wealth_.end());
  if (*max <= kept_) return "none";
  return odds[max - wealth_.begin()] > 1 ? "draft tokens are accepted too often"
                                         : "draft tokens are accepted too rarely";
}

std::string AcceptanceEvidence::describe() const {
  return fmt::format("e-value {:.3g}, alarm at {:.0e}: {} draft tokens verified, {} accepted (expected {:.3g})", max_,
                     1 / alpha_, judged_, accepted_, expected_);
}

}  // namespace draftproof
