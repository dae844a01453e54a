// SPDX-License-Identifier: MIT
// What was found, as data first; text, JSON and JUnit XML are made from it.
#pragma once

#include <string>
#include <vector>

#include "oracle/check.h"

namespace draftproof {

enum class ReportVerdict { pass_exact, bug_proven, vacuous };
const char* name_of(ReportVerdict verdict) noexcept;  // "PASS_EXACT", "BUG_PROVEN", "VACUOUS"

struct Spread {  // seconds of several interleaved repeats
  double median = 0;
  double least = 0;
  double most = 0;
};
Spread spread_of(std::vector<double> seconds);

/// What speculation with one draft did, in the first variation that used it.
struct DraftReport {
  std::string name;
  Statistics statistics;
  double tokens_per_round = 0;
  Fingerprint logits;  // of all rows that the rule asked for
  Spread seconds;  // decoding only, without the prompt
};

struct Report {
  std::string version;
  std::string target;
  std::string rule;
  std::string kernels;
  std::string numerics;
  int threads = 1;  // of the timed runs
  std::uint64_t seed = 0;
  Sampling sampling;
  std::size_t prompt_tokens = 0;
  std::size_t output_tokens = 0;
  std::vector<std::string> runs;    // every variation, described
  std::vector<Finding> findings;
  std::string reason;               // why vacuous, empty otherwise
  Spread plain;                     // seconds of decoding without a draft, without the prompt
  std::vector<DraftReport> drafts;  // the named ones, at least one

  ReportVerdict verdict() const;
};

std::string report_text(const Report& report);
std::string report_json(const Report& report);
std::string report_junit(const Report& report);

}  // namespace draftproof
