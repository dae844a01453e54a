// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iostream>

#include "oracle/exhaustion.h"
#include "oracle/report.h"
#include "oracle/spectrace/traced_subject.h"
#include "ref/base/error.h"
#include "tools/commands.h"
#include "tools/engine_subject.h"
#include "tools/hash_subject.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

constexpr int timed_repeats = 5;
constexpr const char* default_prompt = "Once upon a time";  // any text will do for a proof

struct VerifyOptions {
  CommonOptions common;
  std::vector<std::string> drafts;
  std::string junit_file;
  std::string trace_file;
};

/// The tables to try: the named one, or every one this CPU can run and that keeps the row law, the best first.
std::vector<std::string> tables_to_try(const std::string& named) {
  if (!named.empty()) return {kernels_by_name(named).name};
  std::vector<std::string> names{kernels_by_name("").name};
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (*table != &best_kernels() && (*table)->supported() && unfit(**table)[0] == '\0') {
      names.emplace_back((*table)->name);
    }
  }
  return names;
}

/// Every length to 16, then 32, 64, ... below `limit`.
std::vector<int> lengths_below(int limit) {
  std::vector<int> lengths;
  for (int length = 1; length < limit; length += length < 16 ? 1 : length) lengths.push_back(length);
  return lengths;
}

/// Every named draft on every table, with one and two threads, batched and serial; every named draft at every short
/// length, serially at the powers of two only; and three controls, which need no length or table of their own. The
/// first run of each named draft is the one whose acceptance is reported.
std::vector<Variation> variations_of(const VerifyOptions& options, const Rule& rule, const std::vector<int>& guesses) {
  const auto tables = tables_to_try(options.common.layout.kernels);
  std::vector<Variation> list;
  for (std::size_t i = 0; i < options.drafts.size(); ++i) {
    Variation variation;
    variation.rule = &rule;
    variation.draft = options.drafts[i];
    for (const std::string& table : tables) {
      for (const int threads : {1, 2}) {
        for (const Verification verification : {Verification::batched, Verification::serial}) {
          variation.kernels = table;
          variation.threads = threads;
          variation.verification = verification;
          variation.draft_max = options.common.draft_max;
          list.push_back(variation);
        }
      }
    }
    for (const int length : lengths_below(std::min(guesses[i], options.common.max_new_tokens))) {
      for (const Verification verification : {Verification::batched, Verification::serial}) {
        variation.kernels = tables.front();
        variation.threads = 1;
        variation.verification = verification;
        variation.draft_max = length;
        const bool power = std::has_single_bit(static_cast<unsigned>(length));
        if (power || verification == Verification::batched) list.push_back(variation);
      }
    }
  }
  for (const char* control : {"none", "hostile", "oracular"}) {
    if (std::find(options.drafts.begin(), options.drafts.end(), control) != options.drafts.end()) continue;
    Variation variation;
    variation.rule = &rule;
    variation.draft = control;
    variation.kernels = tables.front();
    for (const Verification verification : {Verification::batched, Verification::serial}) {
      variation.verification = verification;
      list.push_back(variation);
    }
  }
  return list;
}

/// Why a pass would prove nothing about a named draft; empty when it was put to the test.
std::string untested(const Trial& trial, const std::string& draft) {
  Statistics sum;
  for (const Run& run : trial.runs) {
    if (run.variation.draft != draft) continue;
    sum.drafted += run.trace.statistics.drafted;
    sum.accepted += run.trace.statistics.accepted;
    sum.mismatches += run.trace.statistics.mismatches;
  }
  if (sum.drafted == 0) return draft + " guessed nothing";
  if (sum.accepted == 0) return "no guess of " + draft + " was accepted; try a longer text";
  if (sum.mismatches == 0) return "no guess of " + draft + " was refused; try a longer text";
  return "";
}

Fingerprint logits_of(const Trace& trace) {
  Digest digest;
  for (const Round& round : trace.rounds) {
    for (const Fingerprint& row : round.logits) {
      digest.add(row.high);
      digest.add(row.low);
    }
  }
  return digest.value();
}

/// Plain decoding and every named draft, by turns.
void time_decoding(EngineSubject& subject, const Request& request, const VerifyOptions& options, const Rule& rule,
                   Report& report) {
  std::vector<std::string> names = options.drafts;
  names.insert(names.begin(), "none");
  std::vector<std::vector<double>> seconds(names.size());
  for (int repeat = 0; repeat < timed_repeats; ++repeat) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      Variation variation;
      variation.draft = names[i];
      variation.draft_max = options.common.draft_max;
      variation.rule = &rule;
      variation.kernels = report.kernels;
      variation.threads = report.threads;
      SeededChance chance(options.common.seed);
      const Trace trace =
          subject.engine(variation).decode(varied(request, variation), variation.draft, rule, chance);
      seconds[i].push_back(trace.statistics.decode_seconds());
    }
  }
  report.plain = spread_of(seconds[0]);
  for (std::size_t i = 0; i < report.drafts.size(); ++i) report.drafts[i].seconds = spread_of(seconds[i + 1]);
}

Exit verify(const VerifyOptions& options) {
  const CommonOptions& common = options.common;
  std::vector<std::string> sources{common.target, common.prompt_file};
  for (const std::string& draft : options.drafts) sources.push_back(parse_draft_name(draft).path.string());
  std::unique_ptr<OutputFile> json_file;
  std::unique_ptr<OutputFile> junit_file;
  if (!common.json_file.empty()) json_file = std::make_unique<OutputFile>(common.json_file, sources);
  sources.push_back(common.json_file);
  if (!options.junit_file.empty()) junit_file = std::make_unique<OutputFile>(options.junit_file, sources);
  sources.push_back(options.junit_file);
  std::unique_ptr<OutputFile> trace_file;
  if (!options.trace_file.empty()) trace_file = std::make_unique<OutputFile>(options.trace_file, sources);

  const Request request = make_request(common, tokenizer_to_read(common).get());
  const Rule& rule = rule_by_name(common.rule);
  const std::atomic<bool>* const interrupted = watch_for_interrupt();
  Progress progress(common.quiet);

  LayoutOptions best = common.layout;
  best.kernels = tables_to_try(best.kernels).front();
  Layout layout = layout_of(best);
  layout.observer = progress.observer();
  refuse_shortage(common.target, options.drafts, layout, request, trace_file != nullptr);
  EngineSubject subject(common.target, layout, interrupted, trace_file != nullptr);
  Variation first;
  first.rule = &rule;
  first.kernels = tables_to_try(common.layout.kernels).front();
  Report report;
  report.version = DRAFTPROOF_VERSION;
  report.target = common.target;
  report.rule = rule.name;
  report.kernels = first.kernels;
  report.numerics = subject.numerics(first);
  report.threads = threads_of(common);
  report.seed = common.seed;
  report.sampling = request.sampling;
  report.prompt_tokens = request.prompt.size();

  std::vector<int> guesses;  // most per round, by named draft
  for (const std::string& draft : options.drafts) {
    first.draft = draft;
    progress.say("loading " + draft);
    if (const Gate gate = subject.engine(first).gate(draft); gate != Gate::open && report.reason.empty()) {
      report.reason = fmt::format("speculation is off for draft {}: {}", draft, name_of(gate));
    }
    Request probe = request;
    probe.max_new_tokens = 0;
    SeededChance chance(common.seed);
    guesses.push_back(subject.run(probe, first, chance).request.draft_max);
  }

  progress.say("decoding in every variation");
  std::unique_ptr<spectrace::Writer> writer;
  std::unique_ptr<spectrace::TracedSubject> traced;
  if (trace_file) {
    writer = std::make_unique<spectrace::Writer>([&](std::string_view line) { trace_file->append(line); },
                                                 "draftproof " DRAFTPROOF_VERSION, weights_digest(common.target),
                                                 subject.target(first).vocabulary(), rule, common.seed);
    traced = std::make_unique<spectrace::TracedSubject>(subject, *writer);
  }
  Trial trial(traced ? static_cast<Subject&>(*traced) : subject, request, common.seed,
              variations_of(options, rule, guesses));
  if (trace_file) {
    traced->stop();
    trace_file->finish();
  }
  for (const Run& run : trial.runs) report.runs.push_back(run.variation.describe());
  for (const std::string& draft : options.drafts) {
    const auto run = std::find_if(trial.runs.begin(), trial.runs.end(),
                                  [&](const Run& candidate) { return candidate.variation.draft == draft; });
    report.drafts.push_back({draft, run->trace.statistics, run->trace.tokens_per_round(), logits_of(run->trace), {}});
    report.output_tokens = run->trace.output.size();
    if (report.reason.empty()) report.reason = untested(trial, draft);
  }
  for (const Check* check = all_checks(); check->examine != nullptr && !interrupted->load(); ++check) {
    progress.say(std::string("checking ") + check->name);
    const Finding finding = check->examine(trial);
    if (!interrupted->load()) report.findings.push_back(finding);  // else it may have seen runs cut short
  }
  if (!interrupted->load()) {
    progress.say("enumerating every random answer on small models");
    report.findings.push_back(check_production_law(rule));
    report.findings.push_back(check_exhaustion(production()));
    progress.say("timing");
    time_decoding(subject, request, options, rule, report);
  }
  if (interrupted->load()) report.reason = "interrupted; what was done so far proves nothing";

  progress.say("");
  const bool silent = common.quiet || common.json_file == "-" || options.trace_file == "-";
  if (!silent) std::cout << report_text(report) << std::flush;
  if (json_file) json_file->write(report_json(report));
  if (junit_file) junit_file->write(report_junit(report));
  if (!std::cout) throw Error("standard output cannot be written to");
  switch (report.verdict()) {
    case ReportVerdict::pass_exact: return Exit::pass;
    case ReportVerdict::bug_proven: return Exit::divergence;
    case ReportVerdict::vacuous: return Exit::undecided;
  }
  return Exit::divergence;
}

}  // namespace

void add_verify(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* const command = app.add_subcommand("verify", "prove that speculative decoding equals plain decoding");
  add_common_options(*command, options->common);
  command->add_option("--draft", options->drafts, "dflash:PATH, model:PATH, ...; more than one may be given")
      ->required()
      ->expected(1, 16);
  command->add_option("--junit", options->junit_file, "write the checks as JUnit XML to this file");
  command->add_option("--trace", options->trace_file, "write every decision of every run to this file (spectrace/1)");
  command->callback([options, &exit] {
    CommonOptions& common = options->common;
    if (common.prompt.empty() && common.prompt_file.empty() && common.prompt_tokens.empty())
      common.prompt = default_prompt;
    exit = verify(*options);
  });
}

}  // namespace draftproof
