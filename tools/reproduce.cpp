// SPDX-License-Identifier: MIT
// Runs the case of a reproducer again, and reports whether the check still fails.
#include <algorithm>
#include <memory>
#include <set>

#include "oracle/exact/exhaustive_small_cases.h"
#include "ref/base/error.h"
#include "ref/decoding/sequence.h"
#include "ref/formats/printable.h"
#include "tools/commands.h"
#include "tools/constraint_options.h"
#include "tools/engine_subject.h"
#include "tools/interrupt.h"
#include "tools/opened_model.h"
#include "tools/replay_job.h"
#include "tools/report_files.h"
#include "tools/reproducer.h"
#include "zoo/constraint.h"
#include "zoo/production_distribution.h"
#include "zoo/zoo_subject.h"

namespace draftproof {
namespace {

struct ReproduceOptions {
  std::string folder;
  std::string target;
  ReportFileNames files;
  bool quiet = false;
};

/// Throws Error naming the file when the case has token ids that its model does not have.
void expect_tokens(const std::string& file, const Case& trial, int vocabulary) {
  for (const auto* const list : {&trial.request.prompt, &trial.request.stops}) {
    for (const Token token : *list) {
      if (token < vocabulary) continue;
      throw Error(file + ": field request." + (list == &trial.request.prompt ? "prompt" : "stops") + ": token " +
                  std::to_string(token) + " is not one of the model's " + std::to_string(vocabulary));
    }
  }
}

/// Throws Error when what the runs of the case need does not fit into memory.
void expect_memory(OpenedModel& model, const Case& trial) {
  std::set<std::string> drafts;
  int draft_max = 0;
  for (const Variation& variation : trial.variations) {
    drafts.insert(variation.draft);
    draft_max = std::max(draft_max, variation.draft_max);
  }
  model.refuse_shortage({drafts.begin(), drafts.end()}, trial.request, draft_max);
}

Finding of_engine(const std::string& file, const Reproducer& r, bool quiet) {
  try {
    OpenedModel model({r.target, r.load_options, {}, quiet});
    expect_memory(model, *r.trial);
    EngineSubject subject(model.files(), model.load_options(), watch_for_interrupt());
    expect_tokens(file, *r.trial, subject.target(r.trial->variations.front()).vocabulary());
    Case trial = *r.trial;
    if (!r.grammar.empty()) {
      const Checkpoint& files = model.files().target();
      const Tokenizer tokenizer = Tokenizer::load(files);
      constrain(trial.request, {r.grammar, file + ": field request.grammar"}, files, &tokenizer, r.target);
    }
    return examined(subject, trial);
  } catch (const Error& wrong) {
    const std::string message = wrong.what();
    throw Error(message.starts_with(file) ? message : file + ": cannot be run: " + message);
  }
}

Finding of_build(const Reproducer& r) {
  if (r.check == exhaustive_small_cases.name) return check_exhaustive_small_cases(production());
  return zoo::check_production_distribution(*find_rule(r.rule));
}

Finding of_zoo(const std::string& file, const Reproducer& r) {
  const zoo::Mutant* const mutant = zoo::find(r.mutant);
  if (mutant == nullptr) throw Error(file + ": field mutant: there is no mutant " + in_quotes(r.mutant));
  if (!r.trial) return zoo::examined(mutant->parts).at(r.check);
  expect_tokens(file, *r.trial, r.model.vocabulary);
  zoo::ZooSubject subject(r.model, mutant->parts);
  Case trial = *r.trial;
  if (!r.grammar.empty()) {
    trial.request.constraint = zoo::zoo_constraint(r.model.vocabulary, zoo::zoo_output_length, trial.request.stops);
  }
  for (std::size_t i = 0; i < trial.variations.size(); ++i) {
    Variation& variation = trial.variations[i];
    if (!zoo::can_run(mutant->parts, variation, r.model.vocabulary)) {
      throw Error(file + ": field variations[" + std::to_string(i) + "].draft: the zoo has no draft " +
                  in_quotes(variation.draft) + " for this mutant with this verification");
    }
    if (zoo::same_name(mutant->parts.declared, *variation.rule)) variation.rule = mutant->parts.declared;
  }
  const std::string why = request_error(trial.request, subject.target(trial.variations.front()));
  if (!why.empty()) throw Error(file + ": field request: " + why);
  return examined(subject, trial);
}

/// Keeps only the findings of the check that failed: a cut trace leaves other checks without evidence.
Report of_trace(const ReproduceOptions& options, const Reproducer& r) {
  const std::string file = ReproducerFolder::trace_in(options.folder);
  Report report = make_report(replayed({.file = file,
                                        .target = r.target,
                                        .load_options = r.load_options,
                                        .reference = r.reference,
                                        .slack = r.slack,
                                        .tie = r.tie,
                                        .quiet = options.quiet}));
  std::erase_if(report.findings, [&](const Finding& finding) { return finding.check != r.check; });
  report.unproved.clear();
  if (report.verdict != ReportVerdict::invalid_trace) report.verdict = verdict_of(report.findings, "");
  return report;
}

Exit reproduce(const ReproduceOptions& options) {
  const std::string file = ReproducerFolder::case_in(options.folder);
  Reproducer r = read_reproducer(options.folder);
  if (!options.target.empty()) r.target = options.target;
  ReportFiles files(options.files, {options.folder, r.target});
  Report report;
  if (r.command == "trace check") {
    report = of_trace(options, r);
  } else {
    report.subject = r.command == "verify" ? r.target : r.command == "zoo" ? r.mutant : "this build";
    report.findings.push_back(r.command == "verify"  ? of_engine(file, r, options.quiet)
                              : r.command == "build" ? of_build(r)
                                                     : of_zoo(file, r));
    report.verdict = verdict_of(report.findings, "");
  }
  report.command = "reproduce";
  report.version = DRAFTPROOF_VERSION;
  report.about.emplace_back("case", options.folder);
  files.write(report, options.quiet);
  if (watch_for_interrupt()->load()) throw Error("interrupted; the case was not run to its end");
  // A case is about one failure. When that failure is gone the case passes, whatever else is found.
  switch (report.verdict) {
    case ReportVerdict::bug_proven:
    case ReportVerdict::perf_regression:
    case ReportVerdict::invalid_trace: return exit_of(report.verdict);
    default: return Exit::pass;
  }
}

}  // namespace

void add_reproduce(Command& app) {
  auto options = std::make_shared<ReproduceOptions>();
  Command& command = app.subcommand("reproduce", "run a case again that --reproducer wrote");
  command.option("FOLDER", options->folder, "a folder with case.json in it").required();
  command.option("--target MODEL", options->target, "the model, when it is not at the path that the case names");
  add_report_options(command, options->files);
  command.flag("--quiet", options->quiet, "print nothing but errors");
  command.action([options] { return reproduce(*options); });
}

}  // namespace draftproof
