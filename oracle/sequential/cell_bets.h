// SPDX-License-Identifier: MIT
// Bets that learn, for e-processes (oracle/sequential/e_process.h). They bet on which of 16 cells the next outcome
// falls into. A bet pays e = t(cell) / sum of mass t, where mass is the probability of each cell and t = (seen + c) /
// (expected + c) from earlier outcomes, clamped between 1/8 and 8; there is one bet for each caution c. A bet is fair,
// because sum of mass e = 1 for every t that is known before the outcome is. When mass is off by `slack` in total
// variation, E[e] <= 1 + slack (max e - min e), and payments are divided by that. Each is lowered by 2^-30 of itself,
// for rounding. An outcome that is not known pays the least that any outcome could, least t / most t.
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
  /// Pays for the next outcome. `mass` must sum to 1 within rounding.
  void observe(const Mass& mass, std::size_t cell, double slack) noexcept;
  /// Pays for an outcome that is not known the least that any would be paid.
  void forfeit(double slack) noexcept;
  /// Sets the tilts from the outcomes so far. It takes longer than observe(), so it is not called after every outcome.
  void learn() noexcept;
  /// Takes a share of the wealth of each bet and adds `spread` to each.
  void share(double share, double spread) noexcept;

  const std::array<double, 3>& wealth() const noexcept { return wealth_; }  // by caution
  double largest() const noexcept;                                          // ... of these

 private:
  std::array<double, 3> wealth_{};
  std::array<std::array<double, 4>, cells> tilt_;  // by caution; the fourth is unused
  std::array<double, 3> range_{};                  // of tilt_, by caution
  std::array<double, 3> min_{1, 1, 1};             // the same
  Mass expected_{};
  Mass seen_{};
};

}  // namespace draftproof
