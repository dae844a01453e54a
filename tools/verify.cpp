// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <thread>

#include "kernels/operations.h"
#include "oracle/report.h"
#include "ref/base/error.h"
#include "tools/commands.h"
#include "tools/engine_subject.h"
#include "tools/hash_subject.h"

namespace draftproof {
namespace {

constexpr int timed_repeats = 5;
constexpr const char* default_prompt = "Once upon a time";  // any text will do for a proof

struct VerifyOptions {
  CommonOptions common;
  std::vector<std::string> drafts;
  std::string junit_file;
};

/// A line that is rewritten while long work goes on, on a terminal only.
class Progress {
 public:
  explicit Progress(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void say(const std::string& what) const {
    if (shown_) fmt::print(stderr, "\r\033[K{}", what);
  }

 private:
  bool shown_;
};

/// The tables to try: the named one, or every one this CPU can run and that keeps the row law.
std::vector<std::string> tables_to_try(const std::string& named) {
  if (!named.empty()) return {kernels_by_name(named).name};
  std::vector<std::string> names{best_kernels().name};
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (*table != &best_kernels() && (*table)->supported() && unfit(**table)[0] == '\0') {
      names.emplace_back((*table)->name);
    }
  }
  return names;
}

/// The first is the one whose speed and acceptance are reported. Every draft runs batched and serial; the named ones
/// at every draft length and on every table with one and two threads.
std::vector<Variation> variations_of(const VerifyOptions& options, const Rule& rule, int draft_max) {
  const auto tables = tables_to_try(options.common.kernels);
  const Variation base{.draft = options.drafts.front(), .rule = &rule, .kernels = tables.front(), .threads = 1};
  std::vector<Variation> list{base};
  const auto add = [&](auto change) {
    Variation variation = base;
    change(variation);
    list.push_back(variation);
  };
  for (const std::string& table : tables) {
    for (const int threads : {1, 2}) {
      for (const Verification verification : {Verification::batched, Verification::serial}) {
        if (table == base.kernels && threads == 1 && verification == Verification::batched) continue;  // the base
        add([&](Variation& v) {
          v.kernels = table;
          v.threads = threads;
          v.verification = verification;
        });
      }
    }
  }
  std::vector<std::string> drafts = options.drafts;
  for (const char* control : {"none", "hostile", "oracular"}) {
    if (std::find(drafts.begin(), drafts.end(), control) == drafts.end()) drafts.emplace_back(control);
  }
  for (const std::string& draft : drafts) {
    for (const Verification verification : {Verification::batched, Verification::serial}) {
      if (draft == base.draft) continue;
      add([&](Variation& v) {
        v.draft = draft;
        v.verification = verification;
      });
    }
  }
  for (int limit = 1; limit <= draft_max; ++limit) {
    add([&](Variation& v) { v.draft_max = limit; });
  }
  return list;
}

/// Plain and speculative decoding of the first variation, by turns. Seconds exclude the prompt.
void time_decoding(EngineSubject& subject, const Request& request, const Variation& base, int threads,
                   std::uint64_t seed, Report& report) {
  std::vector<double> plain;
  std::vector<double> speculative;
  for (int repeat = 0; repeat < timed_repeats; ++repeat) {
    for (const bool with_draft : {false, true}) {
      Variation variation = base;
      variation.threads = threads;
      if (!with_draft) variation.draft = "none";
      SeededChance chance(seed);
      const Trace trace = subject.engine(variation).decode(varied(request, variation), variation.draft, *variation.rule,
                                                           chance, Recording::counts);
      const Statistics& s = trace.statistics;
      (with_draft ? speculative : plain).push_back(s.target_seconds + s.draft_seconds + s.validate_seconds);
    }
  }
  report.plain = spread_of(plain);
  report.speculative = spread_of(speculative);
}

Exit verify(const VerifyOptions& options) {
  const CommonOptions& common = options.common;
  const auto tokenizer = find_tokenizer(common.target);
  const Request request = make_request(common, tokenizer.get());
  const Rule& rule = rule_by_name(common.rule);
  const int threads = common.threads > 0 ? common.threads : static_cast<int>(std::thread::hardware_concurrency());
  const Progress progress(common.quiet);

  EngineSubject subject(common.target);
  Variation probe{.draft = options.drafts.front(), .rule = &rule, .kernels = tables_to_try(common.kernels).front()};
  Report report;
  report.target = common.target;
  report.draft = probe.draft;
  report.rule = rule.name;
  report.kernels = probe.kernels;
  report.seed = common.seed;
  report.sampling = request.sampling;
  report.prompt_tokens = request.prompt.size();
  for (const std::string& draft : options.drafts) {
    if (const Gate gate = subject.engine(probe).gate(draft); gate != Gate::open && report.reason.empty()) {
      report.reason = fmt::format("speculation is off for draft {}: {}", draft, name_of(gate));
    }
  }

  progress.say("reading the prompt");
  SeededChance first_chance(common.seed);
  const int draft_max = subject.run(request, probe, first_chance).request.draft_max;
  progress.say("decoding in every variation");
  Trial trial(subject, request, common.seed, variations_of(options, rule, draft_max));
  for (const Check* check = all_checks(); check->examine != nullptr; ++check) {
    progress.say(std::string("checking ") + check->name);
    report.findings.push_back(check->examine(trial));
  }
  progress.say("enumerating every random answer on small models");
  report.findings.push_back(check_production_law(rule));

  const Trace& first = trial.runs.front().trace;
  report.runs = trial.runs.size();
  report.output_tokens = first.output.size();
  report.statistics = first.statistics;
  report.tokens_per_round = first.tokens_per_round();
  int accepted = 0;
  int refused = 0;
  for (const Run& run : trial.runs) {
    accepted += run.trace.statistics.accepted;
    refused += run.trace.statistics.mismatches;
  }
  if (report.reason.empty() && first.statistics.drafted == 0) report.reason = "the draft guessed nothing";
  if (report.reason.empty() && accepted == 0) report.reason = "no guess was accepted in any run";
  if (report.reason.empty() && refused == 0) report.reason = "no guess was refused in any run";
  progress.say("timing");
  if (first.statistics.drafted > 0) time_decoding(subject, request, probe, threads, common.seed, report);

  progress.say("");
  if (!common.quiet) std::cout << report_text(report) << std::flush;
  if (!common.json_file.empty()) write_file(common.json_file, report_json(report));
  if (!options.junit_file.empty()) write_file(options.junit_file, report_junit(report));
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
  command->callback([options, &exit] {
    CommonOptions& common = options->common;
    if (common.prompt.empty() && common.prompt_file.empty() && common.prompt_tokens.empty()) common.prompt = default_prompt;
    exit = verify(*options);
  });
}

}  // namespace draftproof
