// SPDX-License-Identifier: MIT
// Tests whether the coins of decisions (uniform random numbers) are uniform on [0, 1) and independent of the coins
// before them. They are tested one after the other, for any number of them, like tokens in
// oracle/sequential/e_process.h: no bet wins against right coins, P(alarm) <= alpha.
//
// For each stream there are bets that learn (oracle/sequential/cell_bets.h) over 16 cells of [0, 1): on the coin
// itself; on the coin minus, and plus, the one before of any stream, modulo 1; and minus, and plus, the one before of
// the same stream. For right coins each of the five is uniform whatever the past is. Wealth is spread evenly over them
// at first, and after every 64 coins a share of 2^-14 of it is spread again.
//
// Slack. Coins lie on a grid or are rounded. N equally likely values, evenly spaced with any offset, put floor(N / 16)
// or that plus 1 into a cell: each of the 16 is off by less than 1 / N, so the distribution of the cell is off by less
// than 8 / N in total variation. Rounding a uniform real to a float moves less than 2^-25 over each of 16 bounds, and a
// generator with both 0 and 1 among its values has 1 / N more in one cell. So 16 / N covers all of it, with N = 2^20
// where nothing is stated.
//
// The repeat test finds one value in two decisions. The next coin equals one of the distinct values seen, of which the
// newest 2^17 are kept, with a probability of at most their number times the largest probability of one value: rare
// events (oracle/sequential/rare_events.h).
//
// The largest probability of one value is 2^-R, R the most bits that any earlier coin in [1/2, 1) showed; before there
// is one it makes no bet. A coin shows its bits after the binary point: floats have at most 24 of them there.
// It shows no more than its shortest decimal has digits for, and 22 where that decimal is a rounded float's, because
// coins may have been written that way; and no more than 30, because c / (2^31 - 1) fills a double with only 31 random
// bits, unless the engine states how many it has. The factor 1 + 2^-7 allows for floats rounded from 32 bits.
//
// The learned bets have one half of alpha and the repeat test the other.
//
// A bet is fair only where it is known before the coin that it will be made. Whether an engine states a coin may depend
// on what it decided: coins of accepted tokens alone are not uniform. So a decision whose coin is not stated is paid
// too, with the least that any coin would be paid in the games of its stream, and so is the next coin in the games that
// need this one.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "oracle/sequential/cell_bets.h"
#include "oracle/sequential/rare_events.h"

namespace draftproof {

/// What a coin decides: whether a draft token is accepted, which token is drafted, or which token the target draws
/// after the draft tokens or under matching.
enum class Stream { accept, draft, target };

class CoinEvidence {
 public:
  /// `bits_stated`: how many bits the engine states its coins have, 1 to 64; 0 where it does not.
  explicit CoinEvidence(double alpha, int bits_stated = 0);

  /// Bets on the next coin, in [0, 1]; generators that include 1 are right too. A number that the rule uses for several
  /// decisions must be passed once. `grid`: the largest probability of one value, where it is known to be above 2^-20.
  void observe(Stream stream, double coin, double grid = 0);

  /// Pays for a coin that is not stated.
  void forfeit(Stream stream);

  long coins() const noexcept { return coins_; }
  /// Returns the largest evidence so far, at least 1.
  double e_value() const noexcept;
  bool alarm() const noexcept { return e_value() * alpha_ >= 1; }
  /// Returns what the fault looks like: the game that has won most.
  std::string suspect() const;
  std::string describe() const;

 private:
  static constexpr std::size_t streams = 3;
  static constexpr std::size_t games = 5;  // for each stream
  static constexpr double bets = streams * games * CellBets::caution.size() + 1;

  void bet_on_cells(std::size_t stream, double coin, double slack);
  void look_up(double coin, double grid);
  double probability_of_one_value(double grid) const;

  double alpha_;
  int bits_max_;
  long coins_ = 0;

  std::array<std::array<CellBets, games>, streams> by_cell_;
  double kept_ = 0;  // by the bet that pays 1
  double max_by_cell_ = 1;
  /// The coin before, where there is one; whether it was stated.
  struct Before {
    std::optional<double> coin;
    bool unknown = false;
  };
  Before before_;
  std::array<Before, streams> before_of_stream_;

  std::set<double> seen_;
  std::deque<double> order_;  // of seen_, oldest first
  int bits_shown_ = 0;
  RareEvents repeats_;
  double first_repeat_ = 0;
};

}  // namespace draftproof
