// SPDX-License-Identifier: MIT
// Tests whether events happen more often than they may. Each happens with a probability of at most `probability`, which
// is known before the event is observed to happen or not.
//
// For such events 2^(j n) exp(-(2^j - 1) sum of probabilities), n the number that happened, is a fair bet for every j:
// E[2^(j x)] = 1 + (2^j - 1) a <= exp((2^j - 1) a) for x that is 1 with probability a. So is the mean over j = 1 ...
// 40, the e-value. It exceeds 1 / alpha with probability alpha at most, whenever one looks
// (oracle/sequential/e_process.h). An event of which it is not known whether it happened counts as one that did not.
#pragma once

#include <string>

namespace draftproof {

class RareEvents {
 public:
  void observe(double probability, bool happened);
  /// `probability`: the most it may have been.
  void forfeit(double probability) noexcept { forfeited_ += probability; }

  long observed() const noexcept { return observed_; }
  long happened() const noexcept { return happened_; }
  double expected() const noexcept { return expected_; }  // at most
  double e_value() const noexcept { return max_; }        // the most it has ever been

  /// Returns a frequency that these observations would have shown: where each event happens, whatever happened before,
  /// with this probability at least, the e-value reaches 1 / alpha with a probability of 0.99 at least. 1 when they are
  /// too few, or too likely anyway, to show any.
  double frequency_seen(double alpha) const;

 private:
  double e_value_of(long happened) const;  // when that many have

  long observed_ = 0;
  long happened_ = 0;
  double expected_ = 0;   // of the observed
  double forfeited_ = 0;  // of the others
  double max_ = 1;
};

}  // namespace draftproof
