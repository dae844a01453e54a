// SPDX-License-Identifier: MIT
// Writes the trace of a command that decodes, and the rows of that trace.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oracle/spectrace/writer.h"
#include "tools/options.h"

namespace draftproof {

struct TraceFileNames {
  std::string trace;  // empty: no trace
  bool rows = false;  // write all rows to a file beside it
};

/// Adds --trace and --trace-rows; `what`: more about the decisions that are written.
void add_trace_options(Command& command, TraceFileNames& names, const std::string& what);

/// The files are opened before the work, as every result file.
class TraceFiles {
 public:
  /// `sources`: files that the command reads or writes. Draws from max(p - q, 0), which the rule `rejection` makes, can
  /// be replayed only with the rows of q. So under that rule rows are written even without --trace-rows, where the
  /// trace is a file and the vocabulary is too large for its lines.
  TraceFiles(const TraceFileNames& names, const CommonOptions& common, const std::vector<std::string>& sources);

  bool asked() const noexcept { return trace_ != nullptr; }
  bool takes_output() const noexcept { return is_standard_output(names_.trace); }

  /// Begins a trace of runs of the target that draw with `seed`.
  spectrace::Writer& begin(const Checkpoint& target, int vocabulary, const Rule& rule, std::uint64_t seed);

  /// Moves both files to their places, the rows first, so that a finished trace always has its rows.
  void finish();

 private:
  TraceFileNames names_;
  std::unique_ptr<OutputFile> trace_;
  std::filesystem::path rows_file_;  // empty: none
  std::optional<spectrace::RowsWriter> rows_;
  std::optional<spectrace::Writer> writer_;
};

}  // namespace draftproof
