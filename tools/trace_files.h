// SPDX-License-Identifier: MIT
// Where a command that decodes puts its trace, and the rows of it.
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
  std::string trace;  // empty: not asked for
  bool rows = false;  // all of them, in a file beside it
};

/// --trace and --trace-rows; `what`: more about the decisions that are written.
void add_trace_options(Command& command, TraceFileNames& names, const std::string& what);

/// Opened before the work, as every result file.
class TraceFiles {
 public:
  /// `sources`: what the command reads, and what else it writes. Draws from max(p - q, 0), which there are by
  /// `rejection`, can be replayed with the rows of q only: there rows are written whether asked for or not, where the
  /// trace is a file and the vocabulary is too large for its lines.
  TraceFiles(const TraceFileNames& names, const CommonOptions& common, const std::vector<std::string>& sources);

  bool asked() const noexcept { return trace_ != nullptr; }
  bool takes_output() const noexcept { return is_standard_output(names_.trace); }

  /// Of runs of the target, drawn with the seed.
  spectrace::Writer& begin(const std::string& target, int vocabulary, const Rule& rule, std::uint64_t seed);

  /// Both in their places, the rows first: a trace that is there has them.
  void finish();

 private:
  TraceFileNames names_;
  std::unique_ptr<OutputFile> trace_;
  std::filesystem::path rows_file_;  // empty: none
  std::optional<spectrace::RowsWriter> rows_;
  std::optional<spectrace::Writer> writer_;
};

}  // namespace draftproof
