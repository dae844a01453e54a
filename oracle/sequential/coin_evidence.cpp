// SPDX-License-Identifier: MIT
#include "oracle/sequential/coin_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/math64.h"
#include "oracle/sequential/wealth.h"
#include "ref/base/require.h"

namespace draftproof {
namespace {

constexpr double finest_grid = 0x1p-20;
constexpr std::size_t seen_max = std::size_t{1} << 17;
constexpr int bits_unstated = 30;    // the most where the engine states none
constexpr int bits_of_a_float = 22;  // written as a decimal
constexpr double slack_of_grids = 16;

constexpr const char* of_streams[] = {"acceptance", "drafting", "the target's draws"};
constexpr const char* stories[] = {
    "coins of {} are not uniform", "a coin of {} follows from the one before", "a coin of {} mirrors the one before",
    "a coin of {} follows from the one before of its kind", "a coin of {} mirrors the one before of its kind"};

double modulo_1(double value) { return value - std::floor(value); }

/// The last cell contains 1 too, because a tiny difference below 0 is rounded to it.
std::size_t cell_of(double value) {
  return std::min(static_cast<std::size_t>(value * CellBets::cells), std::size_t{CellBets::cells - 1});
}

/// Returns the bits after the binary point of a coin in [1/2, 1).
int bits_of(double coin) { return 53 - std::countr_zero(static_cast<std::uint64_t>(coin * 0x1p53)); }

/// Returns the most bits that the coin can have been drawn with if it was written as a decimal; see the header.
int bits_written(double coin) {
  const auto digits = static_cast<int>(fmt::format("{}", coin).size()) - 2;  // after "0."
  const double nearest_float = static_cast<float>(coin);
  const bool of_a_float = coin != nearest_float && std::abs(coin - nearest_float) <= power64(10, -digits);
  const auto bits = static_cast<int>(digits * 3.3219);  // log2(10)
  return of_a_float ? std::min(bits, bits_of_a_float) : bits;
}

}  // namespace

CoinEvidence::CoinEvidence(double alpha, int bits_stated)
    : alpha_(alpha), bits_max_(bits_stated > 0 ? bits_stated : bits_unstated) {
  REQUIRE(bits_stated >= 0 && bits_stated <= 64, "coins have between 1 and 64 bits, or 0 for unstated");
  kept_ = 1 / bets;
  for (auto& of_stream : by_cell_) {
    for (CellBets& learned : of_stream) learned.begin_with(kept_);
  }
}

void CoinEvidence::observe(Stream stream, double coin, double grid) {
  REQUIRE(coin >= 0 && coin <= 1, "coins lie between 0 and 1");
  REQUIRE(grid >= 0 && grid <= 1, "the largest probability of one value is a probability");
  ++coins_;
  bet_on_cells(static_cast<std::size_t>(stream), coin, slack_of_grids * std::max(grid, finest_grid));
  look_up(coin, grid);
}

void CoinEvidence::forfeit(Stream stream) {
  for (CellBets& learned : by_cell_[static_cast<std::size_t>(stream)]) learned.forfeit(slack_of_grids * finest_grid);
  before_ = before_of_stream_[static_cast<std::size_t>(stream)] = {std::nullopt, true};
  repeats_.forfeit(std::min(1.0, static_cast<double>(seen_.size()) * probability_of_one_value(0)));
}

/// Returns the most that the probability of one value can be.
double CoinEvidence::probability_of_one_value(double grid) const {
  return std::max(grid, std::ldexp(1, -bits_shown_) * (1 + 0x1p-7));
}

void CoinEvidence::bet_on_cells(std::size_t stream, double coin, double slack) {
  static constexpr CellBets::Mass even = [] {
    CellBets::Mass mass{};
    mass.fill(1.0 / CellBets::cells);
    return mass;
  }();
  if (max_by_cell_ >= wealth_enough) return;
  const auto bet = [&](std::size_t game, double value) {
    by_cell_[stream][game].observe(even, cell_of(modulo_1(value)), slack);
  };
  const auto bet_after = [&](const Before& before, std::size_t minus, std::size_t plus) {
    if (before.coin) {
      bet(minus, coin - *before.coin);
      bet(plus, coin + *before.coin);
    } else if (before.unknown) {
      by_cell_[stream][minus].forfeit(slack);
      by_cell_[stream][plus].forfeit(slack);
    }
  };
  bet(0, coin);
  bet_after(before_, 1, 2);
  bet_after(before_of_stream_[stream], 3, 4);
  before_ = before_of_stream_[stream] = {coin, false};

  double wealth = kept_;
  for (const auto& of_stream : by_cell_) {
    for (const CellBets& learned : of_stream) wealth += learned.wealth()[0] + learned.wealth()[1] + learned.wealth()[2];
  }
  max_by_cell_ = std::max(max_by_cell_, wealth);
  if (coins_ % spread_interval != 0) return;
  const double spread = spread_share * wealth / bets;
  for (auto& of_stream : by_cell_) {
    for (CellBets& learned : of_stream) {
      learned.share(spread_share, spread);
      learned.learn();
    }
  }
  kept_ = (1 - spread_share) * kept_ + spread;
}

void CoinEvidence::look_up(double coin, double grid) {
  const double probability = static_cast<double>(seen_.size()) * probability_of_one_value(grid);
  const bool again = !seen_.insert(coin).second;
  if (probability < 1) {  // else there is no bet
    if (again && repeats_.happened() == 0) first_repeat_ = coin;
    repeats_.observe(probability, again);
  }

  if (coin >= 0.5 && coin < 1 && bits_shown_ < bits_max_ && bits_of(coin) > bits_shown_) {
    bits_shown_ = std::clamp(std::min(bits_of(coin), bits_written(coin)), bits_shown_, bits_max_);
  }
  if (again) return;
  order_.push_back(coin);
  if (order_.size() <= seen_max) return;
  seen_.erase(order_.front());
  order_.pop_front();
}

double CoinEvidence::e_value() const noexcept { return std::max({1.0, max_by_cell_ / 2, repeats_.e_value() / 2}); }

std::string CoinEvidence::suspect() const {
  if (repeats_.e_value() > max_by_cell_) return "one coin in two decisions";
  std::string name = "none";
  double max = kept_;
  for (std::size_t stream = 0; stream < streams; ++stream) {
    for (std::size_t game = 0; game < games; ++game) {
      if (by_cell_[stream][game].largest() <= max) continue;
      max = by_cell_[stream][game].largest();
      name = fmt::format(fmt::runtime(stories[game]), of_streams[stream]);
    }
  }
  return name;
}

std::string CoinEvidence::describe() const {
  const std::string again = repeats_.happened() == 0
                                ? "no coin was repeated"
                                : fmt::format("{} repeated, {} first (expected {:.2g})", repeats_.happened(),
                                              first_repeat_, repeats_.expected());
  if (!alarm()) {
    return fmt::format("e-value {:.3g} after {} coins, alarm at {:.0e}; {}", e_value(), coins_, 1 / alpha_, again);
  }
  return fmt::format("e-value {:.3g} after {} coins: they are not uniform and independent; this looks like '{}'; {}",
                     e_value(), coins_, suspect(), again);
}

}  // namespace draftproof
