// SPDX-License-Identifier: MIT
#include "oracle/sequential/rare_events.h"

#include <algorithm>

#include "kernels/math64.h"

namespace draftproof {

void RareEvents::observe(double probability, bool happened) {
  ++observed_;
  expected_ += probability;
  if (!happened) return;
  ++happened_;
  constexpr int bets = 40;
  constexpr double log_of_2 = 0x1.62e42fefa39efp-1;
  constexpr double log_of_enough = 600;  // more is not needed, and the sum of all fits a double
  double sum = 0;
  double factor = 1;  // 2^j
  for (int j = 1; j <= bets; ++j) {
    factor *= 2;
    const double log_wealth = j * log_of_2 * static_cast<double>(happened_) - (factor - 1) * (expected_ + forfeited_);
    sum += exp64(std::min(log_wealth, log_of_enough));
  }
  max_ = std::max(max_, sum / bets);
}

}  // namespace draftproof
