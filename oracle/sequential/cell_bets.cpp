// SPDX-License-Identifier: MIT
#include "oracle/sequential/cell_bets.h"

#include <algorithm>

namespace draftproof {
namespace {

constexpr double tilt_max = 8;

}  // namespace

CellBets::CellBets() {
  for (auto& of_cell : tilt_) of_cell.fill(1);
}

void CellBets::observe(const Mass& mass, std::size_t cell, double slack) noexcept {
  double sum[4] = {0, 0, 0, 0};
  for (std::size_t other = 0; other < cells; ++other) {
    for (std::size_t c = 0; c < 4; ++c) sum[c] += mass[other] * tilt_[other][c];
    expected_[other] += mass[other];
  }
  seen_[cell] += 1;
  for (std::size_t c = 0; c < caution.size(); ++c) {
    const double lowered = slack > 0 ? rounding / (1 + slack * range_[c] / sum[c]) : rounding;
    wealth_[c] *= lowered * tilt_[cell][c] / sum[c];
  }
}

void CellBets::forfeit(double slack) noexcept {
  for (std::size_t c = 0; c < caution.size(); ++c) {
    wealth_[c] *= rounding * min_[c] / (min_[c] + range_[c]) / (1 + slack * range_[c] / min_[c]);
  }
}

void CellBets::learn() noexcept {
  for (std::size_t c = 0; c < caution.size(); ++c) {
    double min = tilt_max;
    double max = 0;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const double tilt = (seen_[cell] + caution[c]) / (expected_[cell] + caution[c]);
      tilt_[cell][c] = std::clamp(tilt, 1 / tilt_max, tilt_max);
      min = std::min(min, tilt_[cell][c]);
      max = std::max(max, tilt_[cell][c]);
    }
    range_[c] = max - min;
    min_[c] = min;
  }
}

void CellBets::share(double share, double spread) noexcept {
  for (double& of_bet : wealth_) of_bet = (1 - share) * of_bet + spread;
}

double CellBets::largest() const noexcept { return *std::max_element(wealth_.begin(), wealth_.end()); }

}  // namespace draftproof
