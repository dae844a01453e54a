// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "oracle/checks/checks.h"
#include "oracle/exact/build_checks.h"
#include "oracle/exact/exhaustive_small_cases.h"
#include "oracle/spectrace/traced_subject.h"
#include "ref/base/error.h"
#include "tools/all_drafts.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/constraint_options.h"
#include "tools/engine_subject.h"
#include "tools/interrupt.h"
#include "tools/opened_model.h"
#include "tools/pair.h"
#include "tools/report_files.h"
#include "tools/reproducer.h"
#include "tools/statistics.h"
#include "tools/token_bets.h"
#include "tools/trace_files.h"
#include "tools/verify_endpoint.h"
#include "tools/verify_plan.h"
#include "zoo/production_distribution.h"

namespace draftproof {
namespace {

/// Drafts that look things up find its end twice before.
constexpr const char* repeating_prompt =
    "The fox ran to the old oak. The owl sat on the old oak. The fox ran to the old oak. The owl sat on the old oak. "
    "The fox ran to the old oak. The owl sat on the old oak. The fox ran to the old";
constexpr const char* default_prompt = "Once upon a time";  // the proof needs some text, whichever it is

struct VerifyOptions {
  CommonOptions common;
  ConstraintOptions constraints;
  std::vector<std::string> drafts;
  bool all_drafts = false;  // they are those that `all` stands for: nobody named one
  ReportFileNames files;
  TraceFileNames trace;
  std::string reproducer;
  EndpointOptions endpoint;
  std::string effort = "standard";
  int sequences = 0;                 // 0: as many as the effort says
  std::vector<std::string> skipped;  // checks
  bool bets = false;

  bool makes(const Check& check) const { return std::ranges::find(skipped, check.name) == skipped.end(); }
};

/// Returns the kernel tables to try: the named one, or every table that this CPU can run and that passes the self-test
/// of the row law, the best first.
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

/// What differs from the defaults, which are greedy.
std::string sampling_text(const Sampling& sampling) {
  std::string text = sampling.greedy() ? "greedy" : "";
  for_each_sampling_field([&](const auto& field) {
    const auto value = sampling.*field.member;
    if (value == Sampling{}.*field.member) return;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", with_dashes(field.name), value);
  });
  if (sampling.order == Sampling{}.order) return text;
  std::string steps;
  for (const SamplerStep step : sampling.order) steps += std::string(steps.empty() ? "" : ";") + name_of(step);
  text += (text.empty() ? "samplers " : ", samplers ") + steps;
  return text;
}

std::string biases_text(const std::vector<LogitBias>& biases) {
  std::string text;
  for (const auto& [token, bias] : biases) {
    text += fmt::format("{}token {} {:+g}", text.empty() ? "" : ", ", token, bias);
  }
  return text;
}

std::string context_shift_text(const ContextShift& shift) {
  return fmt::format("at {} positions, {} kept and {} dropped", shift.context, shift.keep, shift.discard);
}

std::vector<const Check*> checks_of(const VerifyOptions& options) {
  std::vector<const Check*> checks(all_checks().begin(), all_checks().end());
  std::erase_if(checks, [&](const Check* check) { return !options.makes(*check); });
  return checks;
}

Effort effort_of(const VerifyOptions& options) {
  Effort effort = effort_by_name(options.effort);
  if (options.sequences > 0) effort.sequences = options.sequences;
  return effort;
}

/// Measures short runs: every draft of the planned variations on the best table, and plain decoding on every table.
Paces measured(EngineSubject& subject, const VerifySetup& setup, const Effort& effort, std::uint64_t seed) {
  Request probe = setup.request;
  const std::size_t positions = probe.prompt.size() + static_cast<std::size_t>(probe.max_new_tokens);  // at most these
  probe.prompt.resize(std::clamp<std::size_t>(positions / 2, 1, 17), probe.prompt.back());
  probe.max_new_tokens = static_cast<int>(std::min<std::size_t>(positions - probe.prompt.size(), 8));
  probe.stops.clear();
  probe.constraint = nullptr;  // it may end the text
  Paces paces;
  const auto pace_of = [&](const Variation& variation) {
    const auto begin = std::chrono::steady_clock::now();
    PhiloxSource random(seed);
    const Trace trace = subject.run(probe, variation, random);
    const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
    const Statistics& s = trace.statistics;
    // Time outside prefill and decoding goes into digests or, when a table is used first, into loading the weights.
    const double beside = whole.count() - s.prompt_seconds - s.decode_seconds();
    const bool loads = variation.kernels != setup.tables.front();
    if (loads) paces.loading = std::max(paces.loading, beside);
    return Pace{(s.decode_seconds() + (loads ? 0 : beside)) / std::max<double>(1, trace.output.size()),
                s.prompt_seconds / std::max<double>(1, probe.prompt.size() - 1)};
  };
  Variation plain;
  plain.rule = setup.rule;
  plain.kernels = setup.tables.front();
  paces.drafts.emplace("none", pace_of(plain));
  for (Variation variation : plan_variations(setup, effort)) {
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

/// Returns why passing the checks would prove nothing about a draft; empty when the runs exercised both acceptance and
/// rejection.
std::string untested(const Trial& trial, const std::string& draft) {
  Statistics sum;
  for (const Run& run : trial.runs) {
    if (run.variation.draft != draft) continue;
    sum.drafted += run.trace.statistics.drafted;
    sum.accepted += run.trace.statistics.accepted;
    sum.mismatches += run.trace.statistics.mismatches;
  }
  if (sum.drafted == 0) return "nothing was drafted";
  const auto advice = [&](const char* control) {
    return std::string(draft == control ? ", by its design; choose a draft that is sometimes right"
                                        : "; try a longer text");
  };
  if (sum.accepted == 0) return "no draft token was accepted" + advice("always-reject");
  if (sum.mismatches == 0) return "no draft token was rejected" + advice("perfect");
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

/// Returns the text of the tokens, or their ids when there is no tokenizer.
std::string shown(const Tokenizer* tokenizer, std::span<const Token> tokens) {
  if (tokenizer != nullptr) return tokenizer->decode(tokens, false);
  std::string text;
  for (const Token token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return "[" + text + "]";
}

/// Returns where the run named by tokens_equal diverges from plain autoregressive decoding.
Divergence find_divergence(Trial& trial, const Failure& failure, const Tokenizer* tokenizer) {
  constexpr std::size_t tokens_before = 24;
  constexpr std::size_t tokens_after = 8;
  const auto run = std::find_if(trial.runs.begin(), trial.runs.end(),
                                [&](const Run& candidate) { return candidate.variation.describe() == failure.run; });
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
    const Round& round = run->trace.rounds[failure.round];
    divergence.draft_tokens = shown(tokenizer, round.proposal.tokens);
  }
  return divergence;
}

/// Writes the smallest case found on which the check of the first failure still fails.
void write_reproducer(ReproducerFolder& folder, EngineSubject& subject, const Trial& trial,
                      const VerifyOptions& options, const GrammarText& grammar, const std::function<bool()>& go_on,
                      Report& report) {
  const auto first = [&](Outcome outcome) {
    return std::find_if(report.findings.begin(), report.findings.end(),
                        [&](const Finding& finding) { return finding.outcome == outcome; });
  };
  auto found = first(Outcome::fail);
  if (found == report.findings.end()) found = first(Outcome::perf_regression);
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
    const auto fails_after_reload = [&](const Case& smaller) {
      subject.unload();
      return ask(smaller).outcome == found->outcome;
    };
    const bool alone = fails_after_reload(smallest.smallest);
    // A failure may depend on the runs before it. Then only the whole case reproduces it, if anything does.
    if (!alone && !fails_after_reload(failing)) {
      found->failure->facts.push_back("not reproducible from a fresh load: state leaks between runs, or a data race");
      return;
    }
    reproducer.command = "verify";
    reproducer.target = options.common.target;
    reproducer.load_options = options.common.load_options;
    reproducer.failure = alone ? *smallest.finding.failure : *found->failure;
    reproducer.trial = alone ? std::move(smallest.smallest) : std::move(failing);
    if (reproducer.trial->request.constraint) reproducer.grammar = grammar.gbnf;
  }
  folder.write(reproducer);
  found->failure->reproduce = folder.command_line();
}

/// Times plain decoding and every named draft, interleaved.
void time_decoding(EngineSubject& subject, const Request& request, const VerifyOptions& options, const Rule& rule,
                   const std::string& kernels, int repeats, Report& report) {
  std::vector<std::string> names = options.drafts;
  names.insert(names.begin(), "none");
  std::vector<std::vector<double>> seconds(names.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      Variation variation;
      variation.draft = names[i];
      variation.draft_max = fixed_draft_max(options.common);
      variation.rule = &rule;
      variation.kernels = kernels;
      variation.threads = threads_to_use(options.common);
      PhiloxSource random(options.common.seed);
      const Trace trace = subject.engine(variation).decode(
          {.request = request, .execution = variation, .draft = variation.draft, .rule = rule, .random = random});
      seconds[i].push_back(trace.statistics.decode_seconds());
    }
  }
  report.plain = spread_of(seconds[0]);
  for (std::size_t i = 0; i < report.drafts.size(); ++i) report.drafts[i].seconds = spread_of(seconds[i + 1]);
}

/// The files and folders that the command reads.
std::vector<std::string> sources_of(const VerifyOptions& options) {
  std::vector<std::string> sources = options.constraints.sources();
  sources.insert(sources.end(), {options.common.target, options.common.prompt_file});
  for (const std::string& path : paths_of_adapters(options.common.load_options)) sources.push_back(path);
  for (const std::string& draft : options.drafts) {
    for (const std::string& path : parse_draft_spec(draft).paths()) sources.push_back(path);
  }
  return sources;
}

/// The request, with what bounds its output.
Request make_verify_request(const VerifyOptions& options, const GrammarText& grammar, OpenedModel& model) {
  const CommonOptions& common = options.common;
  const Checkpoint& files = model.files().target();
  const Tokenizer* tokenizer = model.tokenizer_to_read(common);
  Request request = make_request(common, files, tokenizer);
  if (options.constraints.constrains()) tokenizer = model.tokenizer();
  constrain(request, grammar, files, tokenizer, common.target);
  add_logit_biases(request, options.constraints, files);
  if (request.sampling.dries()) set_dry_breakers(request.sampling, common, model.tokenizer());
  return request;
}

/// One execution of the command. Each step adds its part to the report; after Ctrl-C the remaining steps do nothing.
class VerifyCommand {
 public:
  explicit VerifyCommand(const VerifyOptions& options);
  Exit run();

 private:
  bool interrupted() const { return interrupted_->load(); }
  void describe_request();
  void open_drafts();
  void plan();
  void decode_variations();
  void report_drafts();
  void run_checks();
  void report_divergence();
  void run_build_checks();
  Exit finish();
  /// Shows what is being done and how long the rest will take.
  void show(const std::string& what);

  const VerifyOptions& options_;
  const CommonOptions& common_;
  const Effort effort_;
  const std::vector<const Check*> checks_;
  ReportFiles files_;
  TraceFiles trace_files_;
  std::optional<ReproducerFolder> folder_;
  OpenedModel model_;
  const GrammarText grammar_;
  const Request request_;
  const Rule& rule_;
  const std::atomic<bool>* const interrupted_;
  VerifySetup setup_;
  EngineSubject subject_;
  Variation first_;  // on the best table
  std::vector<Variation> variations_;
  std::unique_ptr<spectrace::TracedSubject> traced_;
  std::optional<Trial> trial_;
  Report report_;
  std::vector<double> steps_;  // expected seconds
  std::size_t done_ = 0;       // of the steps
  std::chrono::steady_clock::time_point begin_;
};

VerifyCommand::VerifyCommand(const VerifyOptions& options)
    : options_(options),
      common_(options.common),
      effort_(effort_of(options)),
      checks_(checks_of(options)),
      files_(options.files, sources_of(options)),
      trace_files_(options.trace, options.common, files_.guarded()),
      folder_(options.reproducer.empty() ? std::nullopt : std::optional<ReproducerFolder>(options.reproducer)),
      model_({common_.target, common_.load_options, {.number = threads_to_use(common_)}, common_.quiet}),
      grammar_(grammar_of(options.constraints)),
      request_(make_verify_request(options, grammar_, model_)),
      rule_(rule_by_name(common_.rule)),
      interrupted_(watch_for_interrupt()),
      setup_{.tables = tables_to_try(common_.load_options.kernels),
             .drafts = options.drafts,
             .draft_tokens = {},
             .draft_max = fixed_draft_max(common_),
             .rule = &rule_,
             .request = request_},
      subject_(model_.files(), model_.load_options(), interrupted_, trace_files_.asked()) {
  model_.refuse_shortage(options_.drafts, request_, setup_.draft_max, trace_files_.asked());
  first_.rule = &rule_;
  first_.kernels = setup_.tables.front();
}

void VerifyCommand::show(const std::string& what) {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  const std::string left = in_words(seconds_left(steps_, done_, elapsed.count()));
  model_.progress().show(fmt::format("{}; about {} left", what, left));
}

void VerifyCommand::describe_request() {
  report_.version = DRAFTPROOF_VERSION;
  report_.command = "verify";
  report_.subject = common_.target;
  for (const std::string& adapter : common_.load_options.lora) report_.subject += " with --lora " + adapter;
  report_.about = {{"rule", rule_.name},
                   {"sampling", sampling_text(request_.sampling)},
                   {"seed", std::to_string(common_.seed)},
                   {"prompt tokens", std::to_string(request_.prompt.size())},
                   {"new tokens", std::to_string(request_.max_new_tokens)},
                   {"kernels", first_.kernels},
                   {"numerics", subject_.numerics(first_)},
                   {"threads", std::to_string(threads_to_use(common_))}};
  if (!grammar_.gbnf.empty()) report_.about.emplace_back("grammar", grammar_.name);
  if (const auto& biases = request_.sampling.logit_bias; !biases.empty()) {
    report_.about.emplace_back("logit bias", biases_text(biases));
  }
  if (request_.context_shift) report_.about.emplace_back("context shift", context_shift_text(*request_.context_shift));
}

/// Loads every named draft, and asks it how many tokens it drafts per round.
void VerifyCommand::open_drafts() {
  for (const std::string& draft : options_.drafts) {
    first_.draft = draft;
    model_.progress().show("loading " + draft);
    if (const Gate gate = subject_.engine(first_).gate(draft); gate != Gate::open && report_.reason.empty()) {
      report_.reason = fmt::format("speculation is off for draft {}: {}", draft, name_of(gate));
    }
    const std::string too_short = short_draft_text(subject_.engine(first_).draft_reach(draft, request_), request_);
    if (!too_short.empty() && !common_.quiet) complain(draft + ": " + too_short);
    const std::string& remark = subject_.engine(first_).draft_remark(draft);
    if (!remark.empty() && !common_.quiet) complain(remark);
    Request probe = request_;
    probe.max_new_tokens = 0;
    PhiloxSource random(common_.seed);
    setup_.draft_tokens.push_back(subject_.run(probe, first_, random).execution.draft_max);
  }
}

/// Chooses the variations, and measures how long the whole will take.
void VerifyCommand::plan() {
  variations_ = plan_variations(setup_, effort_);
  report_.scope = describe_scope(setup_, effort_);
  for (const std::string& what : left_out(setup_, effort_)) {
    report_.unproved.push_back(fmt::format("{} (left out at effort {})", what, effort_.name));
  }
  for (const std::string& check : options_.skipped) report_.unproved.push_back(check + " (left out by --skip-check)");
  model_.progress().show("measuring how long it will take");
  steps_ = plan_steps(setup_, effort_, measured(subject_, setup_, effort_, common_.seed), checks_);
  model_.progress().show("");
  if (!common_.quiet) fmt::print(stderr, "{}: about {}\n", report_.scope, in_words(seconds_left(steps_, 0, 0)));
  begin_ = std::chrono::steady_clock::now();
}

void VerifyCommand::decode_variations() {
  const auto show_run = [&] { show(fmt::format("run {} of {}", done_ + 1, variations_.size())); };
  show_run();
  subject_.will_keep(variations_.size(), [this, show_run] {
    if (++done_ < variations_.size()) show_run();
  });
  if (trace_files_.asked()) {
    traced_ = std::make_unique<spectrace::TracedSubject>(
        subject_,
        trace_files_.begin(model_.files().target(), subject_.target(first_).vocabulary(), rule_, common_.seed),
        grammar_.gbnf);
  }
  Subject& subject = traced_ ? static_cast<Subject&>(*traced_) : subject_;
  trial_.emplace(subject, request_, common_.seed, variations_, effort_);
  if (traced_) traced_->stop();
  trace_files_.finish();
}

/// Returns the first run of a draft.
const Run& run_of(const Trial& trial, const std::string& draft) {
  return *std::find_if(trial.runs.begin(), trial.runs.end(),
                       [&](const Run& run) { return run.variation.draft == draft; });
}

void VerifyCommand::report_drafts() {
  for (const Run& run : trial_->runs) report_.runs.push_back(run.variation.describe());
  for (const std::string& draft : options_.drafts) {
    const Trace& trace = run_of(*trial_, draft).trace;
    report_.drafts.push_back({draft,
                              trace.statistics,
                              trace.tokens_per_round(),
                              logits_of(trace),
                              {},
                              {},
                              rounds_by_accepted(trace),
                              untested(*trial_, draft)});
    report_.output_tokens = trace.output.size();
  }
  const auto is_tested = [](const DraftReport& draft) { return draft.untested.empty(); };
  const bool enough = options_.all_drafts && std::ranges::any_of(report_.drafts, is_tested);
  for (const DraftReport& draft : report_.drafts) {
    if (is_tested(draft)) continue;
    const std::string why = draft.name + ": " + draft.untested;
    if (enough) report_.unproved.push_back(why);
    else if (report_.reason.empty()) report_.reason = why;
  }
}

void VerifyCommand::run_checks() {
  for (const Check* const check : checks_) {
    if (interrupted()) break;
    show(std::string("checking ") + check->name);
    ++done_;
    const Finding finding = check->examine(*trial_);
    if (!interrupted()) report_.findings.push_back(finding);  // else it may have seen runs that were cut short
  }
  for (std::size_t i = 0; i < report_.drafts.size() && !interrupted(); ++i) {
    report_.drafts[i].depths = judged_by_depth(*trial_, run_of(*trial_, report_.drafts[i].name));
  }
  if (options_.bets && !request_.sampling.greedy() && !interrupted()) {
    report_.token_tests = {bet_on_tokens(*trial_, run_of(*trial_, options_.drafts.front()))};
  }
}

void VerifyCommand::report_divergence() {
  for (const Finding& finding : report_.findings) {
    if (finding.check != "tokens_equal" || !finding.failure || finding.failure->position < 0) continue;
    report_.divergences.push_back(find_divergence(*trial_, *finding.failure, model_.tokenizer_to_write()));
  }
}

/// The checks of this build that need no model, and the timing.
void VerifyCommand::run_build_checks() {
  if (interrupted()) return;
  model_.progress().show("enumerating all random draws on small models");
  if (options_.makes(distribution_exact)) report_.findings.push_back(zoo::check_production_distribution(rule_));
  if (options_.makes(exhaustive_small_cases)) report_.findings.push_back(check_exhaustive_small_cases(production()));
  show("timing");
  time_decoding(subject_, request_, options_, rule_, first_.kernels, effort_.timed_repeats, report_);
}

Exit VerifyCommand::finish() {
  if (interrupted()) report_.reason = "interrupted; what was done so far proves nothing";
  report_.verdict = verdict_of(report_.findings, report_.reason);
  const auto alarms = [](const TokenTest& test) { return test.e_value * test.alpha >= 1; };
  if (report_.verdict == ReportVerdict::pass_exact && std::ranges::any_of(report_.token_tests, alarms)) {
    report_.verdict = ReportVerdict::bug_stat;
  }
  // Why a pass would have proved nothing does not matter once something is proven.
  const bool found = report_.verdict == ReportVerdict::bug_proven || report_.verdict == ReportVerdict::perf_regression;
  if (found && !interrupted()) report_.reason.clear();
  model_.progress().show("");
  files_.write(report_, common_.quiet || trace_files_.takes_output());
  return exit_of(report_.verdict);
}

Exit VerifyCommand::run() {
  describe_request();
  open_drafts();
  plan();
  decode_variations();
  report_drafts();
  run_checks();
  report_divergence();
  run_build_checks();
  if (folder_ && !interrupted()) {
    model_.progress().show("looking for the smallest case that fails");
    write_reproducer(
        *folder_, subject_, *trial_, options_, grammar_, [this] { return !interrupted(); }, report_);
  }
  return finish();
}

Exit verify(const VerifyOptions& options) { return VerifyCommand(options).run(); }

void add_endpoint_options(Command& command, EndpointOptions& options) {
  command.group("Proof over HTTP");
  Option& url = command.option("--endpoint URL", options.url,
                               "instead of drafts: a running `draftproof serve` of this target, which is asked many "
                               "requests at once; every answer has to equal plain decoding here");
  command.option("--clients", options.clients, "requests at a time").range(1, 256).show_default().needs(url);
  command.option("--requests", options.requests, "requests, some of which are cancelled on purpose")
      .range(1, 1'000'000)
      .show_default()
      .needs(url);
  command.option("--seconds", options.seconds, "begin no request after this time; 0: ask all")
      .range(0, 1'000'000)
      .show_default()
      .needs(url);
  command.option("--answer-seconds", options.answer_seconds, "time that one answer may take")
      .range(1, 1'000'000)
      .show_default()
      .needs(url);
  command.option("--api-key KEY", options.api_key, "key that the server wants").needs(url);
  command.option("--template FILE", options.template_file, "the server's --template, if it has one").needs(url);
}

/// Throws Error for an option that a proof over HTTP has no use for.
void refuse_local_options(const Command& command) {
  const std::set<std::string> used = {"target",          "--prompt",
                                      "--prompt-file",   "--prompt-tokens",
                                      "--parse-special", "--max-new-tokens",
                                      "--seed",          "--kernels",
                                      "--quantize",      "--kv",
                                      "--threads",       "--json",
                                      "--quiet",         "--endpoint",
                                      "--clients",       "--requests",
                                      "--seconds",       "--answer-seconds",
                                      "--api-key",       "--template",
                                      "--lora"};
  for (const Option& option : command.options()) {
    const std::string& name = option.text().flags.empty() ? option.text().position : option.text().flags.front();
    if (!option.given() || !option.text().position.empty() || used.contains(name)) continue;
    throw Error(name +
                " does nothing with --endpoint: the requests vary on their own, and the server drafts; leave "
                "it out");
  }
}

}  // namespace

void add_verify(Command& app) {
  auto options = std::make_shared<VerifyOptions>();
  Command& command = app.subcommand("verify", "prove that speculative decoding equals plain autoregressive decoding");
  add_common_options(command, options->common, TakesPair::yes);
  add_drafts_option(command, options->drafts,
                    "; or all, alone: every one that serves the target, with the checkpoints beside it, and chains of "
                    "them");
  add_context_shift_option(command, options->common.context_shift);
  add_constraint_options(command, options->constraints);
  command.group("Output");
  command.option("--junit FILE", options->files.junit, "write the checks as JUnit XML to this file");
  command.option("--html FILE", options->files.html, "write the report as an HTML page to this file");
  add_trace_options(command, options->trace, " of every run");
  add_reproducer_option(command, options->reproducer);
  command.group("Checks");
  command.option("--effort", options->effort, "how much is varied; the report names what is left out")
      .choices({"quick", "standard", "full"})
      .show_default();
  command.option("--sequences", options->sequences, "sequences that are decoded together; left out: as the effort says")
      .range(2, 64);
  std::vector<std::string> names;
  for (const std::span<const Check* const> checks : {all_checks(), build_checks()}) {
    for (const Check* const check : checks) names.emplace_back(check->name);
  }
  command.option("--skip-check NAME", options->skipped, "leave out these checks; the report names them").choices(names);
  command.flag("--bets", options->bets,
               "also bet on the sampled tokens of the first draft, as evidence that trials with other seeds add to");
  add_endpoint_options(command, options->endpoint);
  command.action([options, &command] {
    CommonOptions& common = options->common;
    std::string draft;
    use_pair(command, common.target, draft, common.load_options);
    if (!draft.empty()) options->drafts = {draft};
    if (!options->endpoint.url.empty()) {
      refuse_local_options(command);
      return verify_endpoint(common, options->endpoint);
    }
    if (options->drafts.empty()) throw Error("--draft or --endpoint is required; see draftproof verify --help");
    const bool all = options->drafts == std::vector<std::string>{"all"};
    if (common.prompt.empty() && common.prompt_file.empty() && common.prompt_tokens.empty()) {
      common.prompt = all ? repeating_prompt : default_prompt;
    }
    fixed_draft_max(common);  // these refuse auto before anything is loaded
    threads_to_use(common);
    options->all_drafts = all;
    if (all) options->drafts = all_drafts(common.target, layout_of(common.load_options));
    options->files.json = common.json_file;
    return verify(*options);
  });
}

}  // namespace draftproof
