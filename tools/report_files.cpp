// SPDX-License-Identifier: MIT
#include "tools/report_files.h"

#include <iostream>

#include "ref/base/error.h"

namespace draftproof {

void add_report_options(Command& command, ReportFileNames& names) {
  command.group("Output");
  command.option("--json FILE", names.json, "write the report as JSON to this file; - is standard output");
  command.option("--junit FILE", names.junit, "write the checks as JUnit XML to this file");
  command.option("--html FILE", names.html, "write the report as an HTML page to this file");
}

ReportFiles::ReportFiles(const ReportFileNames& names, std::vector<std::string> sources)
    : guarded_(std::move(sources)) {
  const auto open = [&](const std::string& name, std::string (*make)(const Report&)) {
    if (name.empty()) return;
    forms_.push_back({make, std::make_unique<OutputFile>(name, guarded_)});
    if (is_standard_output(name)) output_taken_ = true;
    else guarded_.push_back(name);
  };
  open(names.json, report_json);
  open(names.junit, report_junit);
  open(names.html, report_html);
  open(names.sarif, report_sarif);
}

void ReportFiles::write(const Report& report, bool quiet) {
  if (!quiet && !output_taken_) std::cout << report_text(report) << std::flush;
  for (const Form& form : forms_) form.file->write(form.make(report));
}

Exit exit_of(ReportVerdict verdict) noexcept { return static_cast<Exit>(exit_status(verdict)); }

}  // namespace draftproof
