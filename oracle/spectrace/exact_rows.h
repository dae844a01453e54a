// SPDX-License-Identifier: MIT
// How far the reference, which computes in floats, is from exact. Rows of the float64 twin are compared with it on a
// sample, and where something was found: what lies within the reference's own error is no finding.
//
//     ExactRows exact(target, report);
//     exact.sample(sequence, logits);             // every row, as it is read
//     const auto* row = exact.after(sequence, logits);  // of a row where something was found
//
// The sample are rows after 0, 1, 2, 4, 8, ... emitted tokens of one sequence after another, 32 at most, while the twin
// has read no more than 256 tokens for them. The twin is read by one thread, so its cost is bounded: 2^34
// multiplications for the sample, 2^35 for rows where something was found.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "oracle/spectrace/open_sequence.h"
#include "oracle/spectrace/trace_report.h"
#include "oracle/spectrace/trace_target.h"
#include "oracle/twin/twin.h"

namespace draftproof::spectrace {

class ExactRows {
 public:
  static constexpr long rows_max = 32;
  static constexpr double tokens_max = 256;
  static constexpr double sample_multiplications_max = 0x1p34;
  static constexpr double found_multiplications_max = 0x1p35;

  /// Both outlive it.
  ExactRows(const TraceTarget& target, TraceReport& report) : target_(target), report_(report) {}

  /// Compares the row after the text of the sequence, where it belongs to the sample. `logits`: the reference's.
  void sample(const OpenSequence& sequence, std::span<const double> logits);

  /// Returns the exact logits of the row after the text, compared with the reference's; nullptr where they are not
  /// known: no twin, a shifted context, too many multiplications. Valid until the next call.
  const std::vector<double>* after(const OpenSequence& sequence, std::span<const double> logits);

  /// Returns how far a logit of this row may lie from exact: as compared there or, where it cannot be, as far as in any
  /// row so far.
  double error_of_logit(const OpenSequence& sequence, std::span<const double> logits);

 private:
  const Twin* twin();
  bool read(const OpenSequence& sequence, double& multiplications, double max);
  double compare(const OpenSequence& sequence, std::span<const double> logits);

  const TraceTarget& target_;
  TraceReport& report_;
  std::shared_ptr<const Twin> twin_;
  bool asked_ = false;              // for the twin
  std::unique_ptr<TwinText> text_;  // what it has read last
  std::vector<double> logits_;      // after that
  long sampled_ = 0;                // rows
  double tokens_ = 0;               // read for the sample
  double for_sample_ = 0;           // multiplications
  double for_found_ = 0;
};

}  // namespace draftproof::spectrace
