// SPDX-License-Identifier: MIT
// The outputs of a report: text on standard output, and one file for each format that was asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "oracle/report/report.h"
#include "tools/options.h"

namespace draftproof {

/// File names; an empty one was not asked for.
struct ReportFileNames {
  std::string json;
  std::string junit;
  std::string html;
  std::string sarif;
};

/// --json, --junit and --html.
void add_report_options(Command& command, ReportFileNames& names);

/// The files are opened before the work, as every result file.
class ReportFiles {
 public:
  /// `sources`: what the command reads.
  ReportFiles(const ReportFileNames& names, std::vector<std::string> sources);

  /// Writes the files, and the text unless `quiet` is set or a file is standard output. Throws Error when that fails.
  void write(const Report& report, bool quiet);

  /// Everything the command reads, and these files: nothing else may overwrite them.
  const std::vector<std::string>& guarded() const noexcept { return guarded_; }

 private:
  struct Form {
    std::string (*make)(const Report&);
    std::unique_ptr<OutputFile> file;
  };
  std::vector<Form> forms_;
  std::vector<std::string> guarded_;
  bool output_taken_ = false;  // a file is standard output
};

Exit exit_of(ReportVerdict verdict) noexcept;

}  // namespace draftproof
