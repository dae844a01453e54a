// SPDX-License-Identifier: MIT
// Runs every check on every wrong decoder and on the controls: each check must flag what it should, and no control.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "ref/base/error.h"
#include "ref/formats/printable.h"
#include "tools/commands.h"
#include "tools/progress.h"
#include "tools/report_files.h"
#include "tools/reproducer.h"
#include "zoo/zoo.h"

namespace draftproof {
namespace {

struct ZooOptions {
  std::vector<std::string> only;
  ReportFileNames files;
  std::string reproducer;
  bool quiet = false;
};

std::vector<const zoo::Mutant*> chosen(const std::vector<std::string>& only) {
  std::vector<const zoo::Mutant*> list;
  for (const std::string& id : only) {
    list.push_back(zoo::find(id));
    if (list.back() == nullptr) {
      throw Error("--only " + in_quotes(id) + ": there is no such mutant or control; `draftproof zoo` lists them");
    }
  }
  if (!only.empty()) return list;
  for (const zoo::Mutant& mutant : zoo::all_mutants()) list.push_back(&mutant);
  for (const zoo::Mutant& control : zoo::all_controls()) list.push_back(&control);
  return list;
}

/// Writes a reproducer of the first check that flags the decoder: the smallest trial on which it does, or only the
/// check when it needs no trial.
void write_reproducer(ReproducerFolder& folder, const zoo::Row& row, Report& report) {
  const auto& [mutant, findings] = row;
  for (const std::string& check : zoo::check_names()) {
    const auto found = findings.find(check);  // a check that the decoder cannot be asked is not among them
    if (found == findings.end() || !found->second.failure) continue;
    const Finding& finding = found->second;
    Reproducer reproducer;
    reproducer.command = "zoo";
    reproducer.check = check;
    reproducer.mutant = mutant->id;
    reproducer.failure = *finding.failure;
    if (const auto failed = zoo::first_failed_trial(mutant->parts, check)) {
      Shrunken smallest = zoo::smallest(mutant->parts, *failed, trials_to_shrink);
      reproducer.model = failed->model;
      reproducer.failure = *smallest.finding.failure;
      reproducer.trial = std::move(smallest.smallest);
      if (reproducer.trial->request.constraint) reproducer.grammar = "that of the zoo";
    }
    folder.write(reproducer);
    report.about.emplace_back("reproduce", folder.command_line());
    return;
  }
}

Exit examine_zoo(const ZooOptions& options) {
  const std::vector<const zoo::Mutant*> mutants = chosen(options.only);
  ReportFiles files(options.files, {});
  std::optional<ReproducerFolder> folder;
  if (!options.reproducer.empty()) {
    if (mutants.size() != 1) throw Error("--reproducer is for one decoder; name it with --only");
    folder.emplace(options.reproducer);
  }
  Progress progress(options.quiet);
  std::vector<zoo::Row> rows;
  Report report;
  report.command = "zoo";
  report.version = DRAFTPROOF_VERSION;
  report.subject = "wrong decoders and right ones";
  for (const zoo::Mutant* mutant : mutants) {
    progress.show(fmt::format("{} {} ({} of {})", mutant->id, mutant->name, rows.size() + 1, mutants.size()));
    rows.push_back({mutant, zoo::examined(mutant->parts)});
    report.findings.push_back(zoo::make_finding(rows.back()));
  }
  if (folder) write_reproducer(*folder, rows.front(), report);
  progress.show("");
  report.matrix = zoo::matrix_of(rows);
  report.verdict = verdict_of(report.findings, report.reason);
  files.write(report, options.quiet);
  return exit_of(report.verdict);
}

}  // namespace

void add_zoo(Command& app) {
  auto options = std::make_shared<ZooOptions>();
  Command& command = app.subcommand("zoo", "run every check on wrong decoders, which it must flag, and on right ones");
  command.option("--only ID", options->only, "mutants or controls by id (A01, N03, ...)").count(1, 256);
  add_report_options(command, options->files);
  add_reproducer_option(command, options->reproducer);
  command.flag("--quiet", options->quiet, "print nothing but errors");
  command.action([options] { return examine_zoo(*options); });
}

}  // namespace draftproof
