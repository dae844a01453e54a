// SPDX-License-Identifier: MIT
// What was found, as data first; text, JSON and JUnit XML are made from it.
#pragma once

#include <string>
#include <vector>

#include "oracle/check.h"

namespace draftproof {

/// The verdicts of design and docs; `verify` reaches the first three.
enum class ReportVerdict { pass_exact, bug_proven, vacuous };
const char* name_of(ReportVerdict verdict) noexcept;  // "PASS_EXACT", "BUG_PROVEN", "VACUOUS"

struct Spread {  // seconds of several interleaved repeats
  double median = 0;
  double least = 0;
  double most = 0;
};
Spread spread_of(std::vector<double> seconds);

struct Report {
  std::string target;
  std::string draft;
  std::string rule;
  std::string kernels;
  std::uint64_t seed = 0;
  Sampling sampling;
  std::size_t prompt_tokens = 0;
  std::size_t output_tokens = 0;
  std::size_t runs = 0;
  std::vector<Finding> findings;
  std::string reason;       // why vacuous, empty otherwise
  Statistics statistics;    // of the named draft's first run
  double tokens_per_round = 0;
  Spread plain;             // decoding only, without the prompt
  Spread speculative;

  ReportVerdict verdict() const;
};

std::string report_text(const Report& report);
std::string report_json(const Report& report);
std::string report_junit(const Report& report);

}  // namespace draftproof
