// SPDX-License-Identifier: MIT
#include "oracle/sequential/rare_events.h"

#include <algorithm>
#include <cmath>

#include "kernels/math64.h"

namespace draftproof {

double RareEvents::e_value_of(long happened) const {
  constexpr int bets = 40;
  constexpr double log_of_2 = 0x1.62e42fefa39efp-1;
  constexpr double log_of_enough = 600;  // more is not needed, and the sum of all fits a double
  double sum = 0;
  double factor = 1;  // 2^j
  for (int j = 1; j <= bets; ++j) {
    factor *= 2;
    const double log_wealth = j * log_of_2 * static_cast<double>(happened) - (factor - 1) * (expected_ + forfeited_);
    sum += exp64(std::min(log_wealth, log_of_enough));
  }
  return sum / bets;
}

void RareEvents::observe(double probability, bool happened) {
  ++observed_;
  expected_ += probability;
  if (!happened) return;
  ++happened_;
  max_ = std::max(max_, e_value_of(happened_));
}

double RareEvents::frequency_seen(double alpha) const {
  long enough = 0;
  for (long too_few = -1, above = observed_ + 1; above - too_few > 1;) {  // e_value_of grows
    const long many = (too_few + above) / 2;
    (e_value_of(many) * alpha >= 1 ? above : too_few) = many;
    enough = above;
  }
  if (enough > observed_) return 1;
  // Chernoff: with a mean of m at least, fewer than m - sqrt(2 m ln 100) happen with probability 1 / 100 at most. This
  // m leaves `enough`.
  const double s = std::sqrt(2 * log64(100));
  const double root = (s + std::sqrt(s * s + 4 * static_cast<double>(enough))) / 2;
  return std::min(1.0, root * root / static_cast<double>(observed_));
}

}  // namespace draftproof
