// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "oracle/checks/checks.h"
#include "oracle/exact/exhaustive_small_cases.h"
#include "oracle/spectrace/traced_subject.h"
#include "ref/base/error.h"
#include "tools/commands.h"
#include "tools/engine_subject.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/report_files.h"
#include "tools/reproducer.h"
#include "tools/trace_files.h"
#include "tools/verify_plan.h"
#include "zoo/production_distribution.h"

namespace draftproof {
namespace {

constexpr const char* default_prompt = "Once upon a time";  // any text will do for a proof

struct VerifyOptions {
  CommonOptions common;
  std::vector<std::string> drafts;
  ReportFileNames files;
  TraceFileNames trace;
  std::string reproducer;
  std::string effort = "standard";
};

/// The tables to try: the named one, or every one this CPU can run and that keeps the row law, the best first.
std::vector<std::string> tables_to_try(const std::string& named) {
  if (!named.empty()) return {kernels_by_name(named).name};
  std::vector<std::string> names{kernels_by_name("").name};
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
    if (*table != &best_kernels() && (*table)->supported() && self_test(**table)[0] == '\0') {
      names.emplace_back((*table)->name);
    }
  }
  return names;
}

std::string sampling_text(const Sampling& s) {
  std::string text = s.greedy() ? "greedy" : fmt::format("temperature {:g}", s.temperature);
  if (!s.greedy() && s.top_k > 0) text += fmt::format(", top-k {}", s.top_k);
  if (!s.greedy() && s.top_p < 1) text += fmt::format(", top-p {:g}", s.top_p);
  if (!s.greedy() && s.min_p > 0) text += fmt::format(", min-p {:g}", s.min_p);
  if (s.penalizes()) {
    text += fmt::format(", penalties {:g}, {:g}, {:g} over {}", s.repeat_penalty, s.presence_penalty,
                        s.frequency_penalty, s.repeat_last_n);
  }
  return text;
}

/// The pace of every draft of the runs on the best table, and of plain decoding on every table: of short runs.
Paces measured(EngineSubject& subject, const VerifyQuestion& question, const Effort& effort, std::uint64_t seed) {
  Request probe = question.request;
  const std::size_t positions = probe.prompt.size() + static_cast<std::size_t>(probe.max_new_tokens);  // that there are
  probe.prompt.resize(std::clamp<std::size_t>(positions / 2, 1, 17), probe.prompt.back());
  probe.max_new_tokens = static_cast<int>(std::min<std::size_t>(positions - probe.prompt.size(), 8));
  probe.stops.clear();
  Paces paces;
  const auto pace_of = [&](const Variation& variation) {
    const auto begin = std::chrono::steady_clock::now();
    PhiloxSource random(seed);
    const Trace trace = subject.run(probe, variation, random);
    const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
    const Statistics& s = trace.statistics;
    // What a run takes beside its passes is digests, or where a table is first used, the loading of the weights.
    const double beside = whole.count() - s.prompt_seconds - s.decode_seconds();
    const bool loads = variation.kernels != question.tables.front();
    if (loads) paces.loading = std::max(paces.loading, beside);
    return Pace{(s.decode_seconds() + (loads ? 0 : beside)) / std::max<double>(1, trace.output.size()),
                s.prompt_seconds / std::max<double>(1, probe.prompt.size() - 1)};
  };
  Variation plain;
  plain.rule = question.rule;
  plain.kernels = question.tables.front();
  paces.drafts.emplace("none", pace_of(plain));
  for (Variation variation : variations_of(question, effort)) {
    variation.threads = 1;
    if (variation.kernels == plain.kernels) {
      if (!paces.drafts.contains(variation.draft)) paces.drafts.emplace(variation.draft, pace_of(variation));
    } else if (variation.draft = plain.draft; !paces.tables.contains(variation.kernels)) {
      paces.tables.emplace(variation.kernels, pace_of(variation));
    }
  }
  paces.tables.emplace(plain.kernels, paces.drafts.at("none"));
  return paces;
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
  if (sum.drafted == 0) return draft + " drafted nothing";
  const auto advice = [&](const char* control) {
    return draft == control ? ", as it is made; name a draft that is right at times" : "; try a longer text";
  };
  if (sum.accepted == 0) return "no draft token of " + draft + " was accepted" + advice("always-reject");
  if (sum.mismatches == 0) return "no draft token of " + draft + " was refused" + advice("perfect");
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

/// Text where there is a tokenizer, else ids.
std::string shown(const Tokenizer* tokenizer, std::span<const Token> tokens) {
  if (tokenizer != nullptr) return tokenizer->decode(tokens, false);
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return "[" + text + "]";
}

/// Where the run that tokens_equal names parts from plain decoding.
Divergence divergence_of(Trial& trial, const Failure& failure, const Tokenizer* tokenizer) {
  constexpr std::size_t tokens_before = 24;
  constexpr std::size_t tokens_after = 8;
  const auto run = std::find_if(trial.runs.begin(), trial.runs.end(), [&](const Run& candidate) {
    return candidate.variation.describe() == failure.run;
  });
  const auto part = [&](const std::vector<Token>& tokens, std::size_t from, std::size_t count) {
    from = std::min(from, tokens.size());
    return shown(tokenizer, std::span(tokens).subspan(from, std::min(count, tokens.size() - from)));
  };
  const auto position = static_cast<std::size_t>(failure.position);
  const std::size_t at = position - trial.request.prompt.size();
  std::vector<Token> text = trial.request.prompt;
  text.insert(text.end(), run->trace.output.begin(), run->trace.output.end());
  const std::size_t from = position - std::min(position, tokens_before);
  Divergence divergence{.run = failure.run,
                        .round = failure.round,
                        .position = failure.position,
                        .before = part(text, from, position - from),
                        .plain = part(trial.plain_run(run->variation).output, at, tokens_after),
                        .observed = part(run->trace.output, at, tokens_after),
                        .draft_tokens = {}};
  if (failure.round >= 0) {
    const Round& round = run->trace.rounds[static_cast<std::size_t>(failure.round)];
    divergence.draft_tokens = shown(tokenizer, round.proposal.tokens);
  }
  return divergence;
}

/// Of the first failure: the smallest case that the same check still fails.
void write_reproducer(ReproducerFolder& folder, EngineSubject& subject, const Trial& trial,
                      const VerifyOptions& options, const std::function<bool()>& go_on, Report& report) {
  const auto found = std::find_if(report.findings.begin(), report.findings.end(),
                                  [](const Finding& finding) { return finding.outcome == Outcome::fail; });
  if (found == report.findings.end()) return;
  Reproducer reproducer;
  reproducer.check = found->check;
  if (check_named(found->check).examine == nullptr) {
    reproducer.command = "build";
    reproducer.rule = options.common.rule;
    reproducer.failure = *found->failure;
  } else {
    Case failing{.check = found->check, .request = trial.request, .seed = trial.seed, .variations = {}};
    for (const Run& run : trial.runs) failing.variations.push_back(run.variation);
    const auto ask = [&](const Case& smaller) { return examined(subject, smaller); };
    Shrunken smallest = shrink(failing, *found, trials_to_shrink, ask, go_on);
    const auto fails_anew = [&](const Case& smaller) {
      subject.forget();
      return ask(smaller).outcome == Outcome::fail;
    };
    const bool alone = fails_anew(smallest.smallest);
    // A failure that hangs on what was asked before is one of the whole; if that cannot show it, nothing can.
    if (!alone && !fails_anew(failing)) {
      found->failure->facts.push_back("asked for again from anew it does not show: something outlives a run, or races");
      return;
    }
    reproducer.command = "verify";
    reproducer.target = options.common.target;
    reproducer.load_options = options.common.load_options;
    reproducer.failure = alone ? *smallest.finding.failure : *found->failure;
    reproducer.trial = alone ? std::move(smallest.smallest) : std::move(failing);
  }
  folder.write(reproducer);
  found->failure->reproduce = folder.command_line();
}

/// Plain decoding and every named draft, by turns.
void time_decoding(EngineSubject& subject, const Request& request, const VerifyOptions& options, const Rule& rule,
                   const std::string& kernels, int repeats, Report& report) {
  std::vector<std::string> names = options.drafts;
  names.insert(names.begin(), "none");
  std::vector<std::vector<double>> seconds(names.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      Variation variation;
      variation.draft = names[i];
      variation.draft_max = options.common.draft_max;
      variation.rule = &rule;
      variation.kernels = kernels;
      variation.threads = threads_of(options.common);
      PhiloxSource random(options.common.seed);
      const Trace trace =
          subject.engine(variation).decode(varied(request, variation), variation.draft, rule, random);
      seconds[i].push_back(trace.statistics.decode_seconds());
    }
  }
  report.plain = spread_of(seconds[0]);
  for (std::size_t i = 0; i < report.drafts.size(); ++i) report.drafts[i].seconds = spread_of(seconds[i + 1]);
}

Exit verify(const VerifyOptions& options) {
  const CommonOptions& common = options.common;
  const Effort& effort = effort_by_name(options.effort);
  std::vector<std::string> sources{common.target, common.prompt_file};
  for (const std::string& draft : options.drafts) sources.push_back(parse_draft_name(draft).path.string());
  ReportFiles files(options.files, sources);
  for (const std::string& draft : options.drafts) {
    if (!options.trace.trace.empty()) require_chains(draft, "a trace");
  }
  TraceFiles trace_files(options.trace, common, files.guarded());

  std::optional<ReproducerFolder> folder;
  if (!options.reproducer.empty()) folder.emplace(options.reproducer);

  const Request request = make_request(common, tokenizer_to_read(common).get());
  const Rule& rule = rule_by_name(common.rule);
  const std::atomic<bool>* const interrupted = watch_for_interrupt();
  Progress progress(common.quiet);

  VerifyQuestion question{.tables = tables_to_try(common.load_options.kernels),
                          .drafts = options.drafts,
                          .draft_tokens = {},
                          .trees = !trace_files.asked(),
                          .draft_max = common.draft_max,
                          .rule = &rule,
                          .request = request};
  LayoutOptions best = common.load_options;
  best.kernels = question.tables.front();
  LoadOptions load_options = layout_of(best);
  load_options.observer = progress.observer();
  refuse_shortage(common.target, options.drafts, load_options, request, trace_files.asked());
  EngineSubject subject(common.target, load_options, interrupted, trace_files.asked());
  Variation first;
  first.rule = &rule;
  first.kernels = question.tables.front();
  Report report;
  report.version = DRAFTPROOF_VERSION;
  report.command = "verify";
  report.subject = common.target;
  report.about = {{"rule", rule.name},
                  {"sampling", sampling_text(request.sampling)},
                  {"seed", std::to_string(common.seed)},
                  {"prompt tokens", std::to_string(request.prompt.size())},
                  {"new tokens", std::to_string(request.max_new_tokens)},
                  {"kernels", first.kernels},
                  {"numerics", subject.numerics(first)},
                  {"threads", std::to_string(threads_of(common))}};

  for (const std::string& draft : options.drafts) {
    first.draft = draft;
    progress.say("loading " + draft);
    if (const Gate gate = subject.engine(first).gate(draft); gate != Gate::open && report.reason.empty()) {
      report.reason = fmt::format("speculation is off for draft {}: {}", draft, name_of(gate));
    }
    Request probe = request;
    probe.max_new_tokens = 0;
    PhiloxSource random(common.seed);
    question.draft_tokens.push_back(subject.run(probe, first, random).request.draft_max);
  }

  const std::vector<Variation> variations = variations_of(question, effort);
  report.scope = scope_of(question, effort);
  for (const std::string& what : left_out(question, effort)) {
    report.unproved.push_back(fmt::format("{} (left out at effort {})", what, effort.name));
  }
  progress.say("measuring how long it will take");
  const std::vector<double> steps = steps_of(question, effort, measured(subject, question, effort, common.seed));
  progress.say("");
  if (!common.quiet) {
    fmt::print(stderr, "{}: about {}\n", report.scope, in_words(seconds_left(steps, 0, 0)));
  }
  const auto begin = std::chrono::steady_clock::now();
  std::size_t done = 0;
  const auto say = [&](const std::string& what) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    progress.say(fmt::format("{}; about {} left", what, in_words(seconds_left(steps, done, elapsed.count()))));
  };
  const auto say_run = [&] { say(fmt::format("run {} of {}", done + 1, variations.size())); };
  say_run();
  subject.will_keep(variations.size(), [&] {
    if (++done < variations.size()) say_run();
  });
  std::unique_ptr<spectrace::TracedSubject> traced;
  if (trace_files.asked()) {
    traced = std::make_unique<spectrace::TracedSubject>(
        subject, trace_files.begin(common.target, subject.target(first).vocabulary(), rule, common.seed));
  }
  Trial trial(traced ? static_cast<Subject&>(*traced) : subject, request, common.seed, variations, effort);
  if (traced) traced->stop();
  trace_files.finish();
  for (const Run& run : trial.runs) report.runs.push_back(run.variation.describe());
  for (const std::string& draft : options.drafts) {
    const auto run = std::find_if(trial.runs.begin(), trial.runs.end(),
                                  [&](const Run& candidate) { return candidate.variation.draft == draft; });
    report.drafts.push_back({draft, run->trace.statistics, run->trace.tokens_per_round(), logits_of(run->trace),
                             {}, {}, rounds_by_accepted(run->trace)});
    report.output_tokens = run->trace.output.size();
    if (report.reason.empty()) report.reason = untested(trial, draft);
  }
  for (const Check* const check : all_checks()) {
    if (interrupted->load()) break;
    say(std::string("checking ") + check->name);
    ++done;
    const Finding finding = check->examine(trial);
    if (!interrupted->load()) report.findings.push_back(finding);  // else it may have seen runs cut short
  }
  for (std::size_t i = 0; i < report.drafts.size() && !interrupted->load(); ++i) {
    const auto run = std::find_if(trial.runs.begin(), trial.runs.end(), [&](const Run& candidate) {
      return candidate.variation.draft == report.drafts[i].name;
    });
    report.drafts[i].depths = judged_by_depth(trial, *run);
  }
  for (const Finding& finding : report.findings) {
    if (finding.check != "tokens_equal" || !finding.failure || finding.failure->position < 0) continue;
    report.divergences.push_back(divergence_of(trial, *finding.failure, tokenizer_to_write(common).get()));
  }
  if (!interrupted->load()) {
    progress.say("enumerating every random answer on small models");
    report.findings.push_back(zoo::check_production_distribution(rule));
    report.findings.push_back(check_exhaustive_small_cases(production()));
    say("timing");
    time_decoding(subject, request, options, rule, first.kernels, effort.timed_repeats, report);
  }
  if (folder && !interrupted->load()) {
    progress.say("looking for the smallest case that fails");
    write_reproducer(*folder, subject, trial, options, [&] { return !interrupted->load(); }, report);
  }
  if (interrupted->load()) report.reason = "interrupted; what was done so far proves nothing";

  report.verdict = verdict_of(report.findings, report.reason);
  // What a pass would not have proved is no matter beside a proof of the contrary.
  if (report.verdict == ReportVerdict::bug_proven && !interrupted->load()) report.reason.clear();
  progress.say("");
  files.write(report, common.quiet || trace_files.takes_output());
  return exit_of(report.verdict);
}

}  // namespace

void add_verify(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* const command = app.add_subcommand("verify", "prove that speculative decoding equals plain decoding");
  add_common_options(*command, options->common);
  command->add_option("--draft", options->drafts, "dflash:PATH, model:PATH, ...; more than one may be given")
      ->required()
      ->expected(1, 16);
  command->add_option("--junit", options->files.junit, "write the checks as JUnit XML to this file");
  command->add_option("--html", options->files.html, "write the report as one page to this file, for a browser");
  add_trace_options(*command, options->trace, " of every run");
  add_reproducer_option(*command, options->reproducer);
  command
      ->add_option("--effort", options->effort,
                   "quick, standard or full: how much is varied; the report names what is left out")
      ->capture_default_str();
  command->callback([options, &exit] {
    CommonOptions& common = options->common;
    if (common.prompt.empty() && common.prompt_file.empty() && common.prompt_tokens.empty())
      common.prompt = default_prompt;
    options->files.json = common.json_file;
    exit = verify(*options);
  });
}

}  // namespace draftproof
