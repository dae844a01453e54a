// SPDX-License-Identifier: MIT
// Bets that learn, for e-processes (oracle/sequential/e_process.h): on which of 16 cells the next outcome falls into. A bet pays
// e = t(cell) / sum of mass t, where mass is how likely each cell is and t = (seen + c) / (expected + c) from earlier
// outcomes, held between 1/8 and 8; there is one for each caution c. Fair, since sum of mass e = 1 for every t that is
// known before the outcome is. When mass is off by `slack` in total variation, E[e] <= 1 + slack (max e - min e), and
// payments are divided by that; and each is lowered by 2^-30 of itself, for rounding.
#pragma once

#include <array>
#include <cstddef>

namespace draftproof {

class CellBets {
 public:
  static constexpr int cells = 16;
  static constexpr std::array<double, 3> caution = {20, 200, 2000};  // c
  static constexpr double rounding = 1 - 0x1p-30;
  using Mass = std::array<double, cells>;

  CellBets();

  void begin_with(double each) noexcept { wealth_.fill(each); }
  /// The next outcome. `mass` sums to 1 but for rounding.
  void observe(const Mass& mass, std::size_t cell, double slack) noexcept;
  /// From what was observed so far. Not after every outcome, because it takes longer than one does.
  void learn() noexcept;
  /// Each bet gives away a share of its wealth and is given `spread`.
  void share(double share, double spread) noexcept;

  const std::array<double, 3>& wealth() const noexcept { return wealth_; }  // by caution
  double largest() const noexcept;                                          // of these

 private:
  std::array<double, 3> wealth_{};
  std::array<std::array<double, 4>, cells> tilt_;  // by caution; the fourth is unused
  std::array<double, 3> range_{};                  // of tilt_, by caution
  Mass expected_{};
  Mass seen_{};
};

}  // namespace draftproof
