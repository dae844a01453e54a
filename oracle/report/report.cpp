// SPDX-License-Identifier: MIT
#include "oracle/report/report.h"

#include <fmt/format.h>

#include <algorithm>

namespace draftproof {

const char* name_of(ReportVerdict verdict) noexcept {
  switch (verdict) {
    case ReportVerdict::pass_exact: return "PASS_EXACT";
    case ReportVerdict::pass_stat: return "PASS_STAT";
    case ReportVerdict::bug_proven: return "BUG_PROVEN";
    case ReportVerdict::bug_stat: return "BUG_STAT";
    case ReportVerdict::perf_regression: return "PERF_REGRESSION";
    case ReportVerdict::undecided: return "UNDECIDED";
    case ReportVerdict::vacuous: return "VACUOUS";
    case ReportVerdict::invalid_trace: return "INVALID_TRACE";
  }
  return "INVALID_TRACE";
}

ReportVerdict verdict_of(const std::vector<Finding>& findings, const std::string& reason) {
  const auto any = [&](Outcome outcome) {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.outcome == outcome; });
  };
  if (any(Outcome::fail)) return ReportVerdict::bug_proven;
  if (any(Outcome::perf_regression)) return ReportVerdict::perf_regression;
  return !reason.empty() || any(Outcome::vacuous) ? ReportVerdict::vacuous : ReportVerdict::pass_exact;
}

int exit_status(ReportVerdict verdict) noexcept {
  switch (verdict) {
    case ReportVerdict::pass_exact:
    case ReportVerdict::pass_stat: return 0;
    case ReportVerdict::bug_proven:
    case ReportVerdict::bug_stat: return 1;
    case ReportVerdict::undecided:
    case ReportVerdict::vacuous: return 2;
    case ReportVerdict::invalid_trace: return 3;
    case ReportVerdict::perf_regression: return 4;
  }
  return 3;
}

std::string describe_gap(const TextDifference& difference) {
  if (!difference.gap) return "gap not known";
  return fmt::format("gap {}{:.2g} of {}", difference.gap_at_least ? "more than " : "", *difference.gap,
                     difference.gap_from);
}

Spread spread_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

}  // namespace draftproof
