// SPDX-License-Identifier: MIT
#include "oracle/cell_bets.h"

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
    double lowered = rounding;
    if (slack > 0) {
      const auto of_c = [c](const auto& a, const auto& b) { return a[c] < b[c]; };
      const auto [least, most] = std::minmax_element(tilt_.begin(), tilt_.end(), of_c);
      lowered /= 1 + slack * ((*most)[c] - (*least)[c]) / sum[c];
    }
    wealth_[c] *= lowered * tilt_[cell][c] / sum[c];
  }
}

void CellBets::learn() noexcept {
  for (std::size_t cell = 0; cell < cells; ++cell) {
    for (std::size_t c = 0; c < caution.size(); ++c) {
      tilt_[cell][c] = std::clamp((seen_[cell] + caution[c]) / (expected_[cell] + caution[c]), 1 / tilt_max, tilt_max);
    }
  }
}

void CellBets::share(double share, double spread) noexcept {
  for (double& of_bet : wealth_) of_bet = (1 - share) * of_bet + spread;
}

double CellBets::largest() const noexcept { return *std::max_element(wealth_.begin(), wealth_.end()); }

}  // namespace draftproof
