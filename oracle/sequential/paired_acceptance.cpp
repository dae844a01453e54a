// SPDX-License-Identifier: MIT
#include "oracle/sequential/paired_acceptance.h"

#include <fmt/format.h>

namespace draftproof {

void PairedAcceptance::count(bool in_first, bool in_second) {
  accepted_[0] += in_first;
  accepted_[1] += in_second;
  alone_[0] += in_first && !in_second;
  alone_[1] += in_second && !in_first;
}

void PairedAcceptance::bet(bool in_second) {
  const double before = e_value();
  evidence_.observe(fair, in_second);
  if (e_value() > before) from_ = lowest_;
}

std::string PairedAcceptance::text(const std::string& first, const std::string& second) const {
  if (accepted_[0] + accepted_[1] == 0) return "";
  std::string text = fmt::format("accepted draft tokens: {} in {} and {} in {}; {} and {} of them in that one only\n",
                                 accepted_[0], first, accepted_[1], second, alone_[0], alone_[1]);
  if (!slower()) return text;
  return text + fmt::format("PERF_REGRESSION: the draft is worse in {}, from {}\n  e-value {:.3g}, alarm at {:.0e}\n",
                            second, slower_from(), e_value(), 1 / alpha);
}

}  // namespace draftproof
