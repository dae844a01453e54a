// SPDX-License-Identifier: MIT
// Where a command puts its report: people's text on standard output, and a file for each form that was asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "oracle/report/report.h"
#include "tools/options.h"

namespace draftproof {

/// Empty: not asked for.
struct ReportFileNames {
  std::string json;
  std::string junit;
  std::string html;
  std::string sarif;
};

/// --json, --junit and --html.
void add_report_options(Command& command, ReportFileNames& names);

/// Opened before the work, as every result file.
class ReportFiles {
 public:
  /// `sources`: what the command reads.
  ReportFiles(const ReportFileNames& names, std::vector<std::string> sources);

  /// The files, and the text unless `quiet` or a file is standard output. Error when something cannot be written.
  void write(const Report& report, bool quiet);

  /// What is read and written: not to be overwritten by anything else.
  const std::vector<std::string>& guarded() const noexcept { return guarded_; }

 private:
  struct Form {
    std::string (*make)(const Report&);
    std::unique_ptr<OutputFile> file;
  };
  std::vector<Form> forms_;
  std::vector<std::string> guarded_;
  bool output_taken_ = false;  // by a file named -
};

Exit exit_of(ReportVerdict verdict) noexcept;

}  // namespace draftproof
