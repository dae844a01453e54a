// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <optional>

#include "oracle/spectrace/control.h"
#include "oracle/spectrace/replay.h"
#include "oracle/spectrace/rows_file.h"
#include "oracle/spectrace/show.h"
#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/decoding/engine.h"
#include "ref/formats/printable.h"
#include "ref/grammar/grammar_constraint.h"
#include "ref/models/models.h"
#include "tools/commands.h"
#include "tools/opened_model.h"
#include "tools/replay_job.h"
#include "tools/report_files.h"
#include "tools/reproducer.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

struct TraceOptions {
  ReplayJob job;
  RealOrAuto slack{.max = 1};
  RealOrAuto tie{.max = 100};
  ReportFileNames files;
  std::string reproducer;
};

/// Loads the target in a numerics class (a class of equal bits), if an allowed kernel table has it: the named table, or
/// any. For sequences of other numerics, loads the reference. Holds one target at a time, besides one of each class
/// that open sequences still use.
class Targets {
 public:
  explicit Targets(const ReplayJob& options)
      : model_({options.target, options.load_options, {.number = options.threads}, options.quiet}),
        reference_(model_.load_options()),
        exact_(options.reference == "f64"),
        vocabulary_(describe(model_.files().target(), reference_).vocabulary) {
    if (options.reference != "own") {
      if (reference_.quantize == Quantization::none) reference_.quantize = Quantization::f32;
      reference_.kv = KvFormat::f32;
    }
    const LoadOptions& like = model_.load_options();
    load_options_.push_back(like);
    for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) {
      const bool allowed = options.load_options.kernels.empty() && (*table)->supported();
      if (allowed && self_test(**table)[0] == '\0') load_options_.push_back(with_kernels(**table, like));
    }
  }

  int vocabulary() const noexcept { return vocabulary_; }
  const Checkpoint& checkpoint() noexcept { return model_.files().target(); }
  std::string reference() const { return exact_ ? "float64, exact" : numerics_of(reference_); }

  /// The target's float64 twin. Throws Error where there is none, or where it takes too much memory to be read unasked.
  std::shared_ptr<const Twin> twin() {
    constexpr std::int64_t unasked_max = std::int64_t{1} << 29;
    if (twin_) return twin_;
    const Checkpoint& target = model_.files().target();
    if (const std::int64_t numbers = numbers_in(target); !exact_ && numbers > unasked_max) {
      throw Error("the target has " + std::to_string(numbers) + " weights; give --reference f64, with " +
                  std::to_string(numbers >> 28) + " GiB of memory for them");
    }
    return twin_ = std::make_shared<const Twin>(target, model_.load_options().long_context);
  }

  std::shared_ptr<const Constraint> constraint_of(const std::string& gbnf, const std::vector<Token>& stops) {
    if (!trie_) {
      if (model_.tokenizer() == nullptr) throw Error("the target has no tokenizer");
      trie_ = std::make_shared<const TokenTrie>(*model_.tokenizer(), vocabulary());
    }
    return std::make_shared<GrammarConstraint>(
        std::make_shared<const Grammar>(Grammar::from_gbnf(gbnf, "the grammar of the trace")), trie_, stops);
  }

  std::shared_ptr<Model> computing_in(const std::string& numerics) {
    for (const LoadOptions& load_options : load_options_) {
      if (numerics_of(load_options) != numerics) continue;
      return loaded(load_options);
    }
    return nullptr;
  }
  std::shared_ptr<Model> computing_anyhow() { return loaded(reference_); }

  /// Loads the target with weights of another type, or another model. Throws Error where it cannot be compared.
  spectrace::Suspect suspect(const std::string& name) {
    struct Loaded {
      ModelFiles files;
      std::optional<Engine> engine;
    };
    const bool own = name == "q8" || name == "q4";
    LoadOptions load_options = reference_;
    if (own) load_options.quantize = quantization_by_name(name);
    load_options.requantize = own;
    auto loaded = std::make_shared<Loaded>(ModelFiles(own ? checkpoint() : Checkpoint(name)), std::nullopt);
    Model& model = loaded->engine.emplace(loaded->files, load_options).target();
    if (model.vocabulary() != vocabulary_) {
      throw Error(in_quotes(name) + " has " + std::to_string(model.vocabulary()) + " tokens, the target " +
                  std::to_string(vocabulary_) + "; a suspect has the target's vocabulary");
    }
    return {own ? "weights in " + name : name, std::shared_ptr<Model>(loaded, &model)};
  }

 private:
  std::shared_ptr<Model> loaded(const LoadOptions& load_options) {
    std::weak_ptr<Engine>& kept = kept_[numerics_of(load_options)];
    engine_ = kept.lock();
    if (!engine_) kept = engine_ = std::make_shared<Engine>(model_.files(), load_options);
    return {engine_, &engine_->target()};
  }

  OpenedModel model_;
  LoadOptions reference_;
  bool exact_;  // the reference is the twin
  int vocabulary_;
  std::vector<LoadOptions> load_options_;
  std::shared_ptr<Engine> engine_;                     // the one loaded last
  std::shared_ptr<const Twin> twin_;                   // null before it is asked for
  std::shared_ptr<const TokenTrie> trie_;              // null before the first grammar
  std::map<std::string, std::weak_ptr<Engine>> kept_;  // by numerics, while sequences use them
};

/// Measures what is to be granted.
void grant_measured(const ReplayJob& job, spectrace::TraceTarget& target) {
  if (!job.slack_auto && !job.tie_auto) return;
  if (job.target.empty()) throw Error("--slack auto and --tie auto are measured with the target; give --target, too");
  if (job.control.empty() && job.tie_auto) {
    throw Error("--tie auto is measured on greedy texts of the same engine without speculation; give --control FILE");
  }
  if (job.control.empty() && is_present(job.file) && !std::filesystem::is_regular_file(job.file)) {
    throw Error("--slack auto reads the trace twice, but " + in_quotes(job.file) +
                " can be read only once; write the trace to a file, or give --control FILE");
  }
  const auto grant_slack = [&](const spectrace::Grant& slack) {
    target.slack = slack.granted;
    target.slack_basis = slack.basis;
    target.slack_from_tokens = slack.from_tokens;
  };
  if (job.control.empty()) return grant_slack(spectrace::Control::slack_shown_by(job.file, target));
  const spectrace::Control control(job.control, target);
  if (job.slack_auto) grant_slack(control.slack());
  if (!job.tie_auto) return;
  const spectrace::Grant tie = control.tie();
  target.tie = tie.granted;
  target.tie_basis = tie.basis;
  target.tie_scale = tie.scale;
}

}  // namespace

spectrace::TraceReport replayed(const ReplayJob& job) {
  std::unique_ptr<Targets> targets;
  spectrace::TraceTarget target;
  if (!job.target.empty()) {
    targets = std::make_unique<Targets>(job);
    target = {
        targets->vocabulary(),
        [&](const std::string& numerics) { return targets->computing_in(numerics); },
        0,
        0,
        [&] { return targets->computing_anyhow(); },
        [&](const std::string& gbnf, const std::vector<Token>& stops) { return targets->constraint_of(gbnf, stops); },
        [&] { return weights_digest(targets->checkpoint()); }};
  }
  if (targets) {
    target.reference = targets->reference();
    target.twin = [&] { return targets->twin(); };
    target.exact = job.reference == "f64";
    for (const std::string& name : job.suspects) target.suspects.push_back(targets->suspect(name));
  }
  target.slack = job.slack;
  target.tie = job.tie;
  target.progress = job.progress;
  grant_measured(job, target);
  return spectrace::replay(job.file, target);
}

namespace {

/// The first failure; of one that costs speed only, where there is no other.
const spectrace::TraceFinding& first_of(const spectrace::TraceReport& found) {
  return found.findings.empty() ? found.slower.front() : found.findings.front();
}

/// Writes a reproducer: the smallest part of the trace that still has the first failure.
void write_reproducer(ReproducerFolder& folder, const ReplayJob& job, const spectrace::TraceReport& found_in,
                      Report& report) {
  const spectrace::TraceFinding& finding = first_of(found_in);
  Failure& failure = *report.findings.front().failure;
  Reproducer reproducer;
  reproducer.command = "trace check";
  reproducer.check = finding.check;
  reproducer.failure = failure;
  reproducer.target = job.target;
  reproducer.load_options = job.load_options;
  reproducer.reference = job.reference;
  if (!found_in.rows.empty()) reproducer.rows = spectrace::rows_beside(job.file, found_in.rows).string();
  reproducer.slack = found_in.slack;
  reproducer.tie = found_in.tie;
  ReplayJob again = job;
  again.slack = found_in.slack;
  again.tie = found_in.tie;
  again.slack_auto = again.tie_auto = false;
  again.file = folder.trace_file();
  const CutTrace cut = cut_trace(job.file, finding.place.sequence, failure.line);
  for (const std::string& text : {cut.round, cut.sequence}) {
    if (text.empty()) continue;
    reproducer.trace = text;
    folder.write(reproducer);
    const spectrace::TraceReport found = replayed(again);
    const auto same = [&](const spectrace::TraceFinding& f) { return f.check == std::string_view(finding.check); };
    if (std::ranges::any_of(found.findings, same) || std::ranges::any_of(found.slower, same)) {
      failure.reproduce = folder.command_line();
      return;
    }
  }
  folder.remove();
  report.about.emplace_back("reproducer", "none: no single sequence fails on its own; keep the whole trace");
}

Exit check(const TraceOptions& options) {
  const ReplayJob& job = options.job;
  ReportFiles files(options.files, {job.file, job.target});
  std::optional<ReproducerFolder> folder;
  if (!options.reproducer.empty()) {
    if (is_present(job.file) && !std::filesystem::is_regular_file(job.file)) {
      throw Error("--reproducer reads the trace again, but " + in_quotes(job.file) +
                  " can be read only once; write the trace to a file");
    }
    folder.emplace(options.reproducer);
  }
  const spectrace::TraceReport found = replayed(job);
  Report report = make_report(found);
  report.version = DRAFTPROOF_VERSION;
  if (folder && !(found.findings.empty() && found.slower.empty())) {
    write_reproducer(*folder, job, found, report);
  } else if (folder && report.verdict == ReportVerdict::bug_stat) {
    report.about.emplace_back("reproducer",
                              "none: no single decision is wrong, only all tokens together; keep the trace");
  }
  files.write(report, job.quiet);
  return exit_of(report.verdict);
}

struct ShowOptions {
  std::string file;
  spectrace::ShownPart wanted;
};

Exit show(const ShowOptions& options) {
  const long rounds = spectrace::show(options.file, options.wanted, [](const std::string& text) { std::cout << text; });
  std::cout << std::flush;
  if (rounds == 0) throw Error(options.file + ": there is no such round");
  return Exit::pass;
}

Exit diff(const std::string& a, const std::string& b) {
  const spectrace::TraceComparison comparison = spectrace::compare(a, b);
  std::cout << comparison.text() << std::flush;
  if (!comparison.same()) return Exit::divergence;
  return comparison.drafts.slower() || comparison.expected.slower() ? Exit::perf_regression : Exit::pass;
}

void add_trace_check(Command& trace) {
  auto options = std::make_shared<TraceOptions>();
  Command& command = trace.subcommand("check", "replay every decision of a recorded run");
  command.option("FILE", options->job.file, "a trace, spectrace/2").required();
  Option& target =
      command.option("--target MODEL", options->job.target, "the model it was made with: every p is computed again");
  command.option(
      "--slack", options->slack,
      "how far, in total variation, the p of an engine of other numerics may be from the target's, or, without "
      "--target, from the rows of the trace; auto: what --control shows, or rows and log-probabilities of the "
      "trace");
  command
      .option("--tie", options->tie,
              "how far below the target's best, in logits, a greedy token of an engine of other numerics may be; auto: "
              "what --control shows")
      .needs(target);
  command
      .option("--control FILE", options->job.control,
              "a trace of the same engine without speculation, which --slack auto and --tie auto measure")
      .needs(target);
  command
      .option(
          "--reference", options->job.reference,
          "what an engine of other numerics is compared with: float weights and the KV cache in float32; exact rows, "
          "in float64; or as --quantize and --kv say")
      .choices({"f32", "f64", "own"})
      .show_default();
  command
      .option("--suspect TYPE|MODEL", options->job.suspects,
              "what the engine may run in place of the target: its weights in q8 or q4, or another model of the same "
              "vocabulary; its sampled tokens are bet on, too")
      .one_each_time()
      .needs(target);
  add_layout_options(command, options->job.load_options);
  add_threads_option(command, options->job.threads);
  add_report_options(command, options->files);
  command.option("--sarif FILE", options->files.sarif, "write what is wrong as SARIF 2.1.0 to this file");
  add_reproducer_option(command, options->reproducer);
  command.flag("--quiet", options->job.quiet, "print nothing");
  command.action([options] {
    ReplayJob& job = options->job;
    job.slack = options->slack.number;
    job.slack_auto = options->slack.automatic;
    job.tie = options->tie.number;
    job.tie_auto = options->tie.automatic;
    if (!job.control.empty() && !job.slack_auto && !job.tie_auto) {
      throw Error("--control is measured for --slack auto and --tie auto; give one of them, too");
    }
    return check(*options);
  });
}

void add_trace_show(Command& trace) {
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  auto options = std::make_shared<ShowOptions>();
  Command& command = trace.subcommand("show", "print the rounds of a trace as text");
  command.option("FILE", options->file, "a trace, spectrace/2").required();
  command.option("--sequence", options->wanted.sequence, "only this sequence").range(std::int64_t{0}, max);
  command.option("--round", options->wanted.round, "only this round of every sequence shown")
      .range(std::int64_t{0}, max);
  command
      .option("--position", options->wanted.position,
              "only the round that decides the token at this position of every sequence shown; the prompt begins at 0")
      .range(std::int64_t{0}, max);
  command.action([options] { return show(*options); });
}

}  // namespace

void add_trace(Command& app) {
  Command& trace = app.subcommand("trace", "check, show and compare recorded runs (docs/spectrace.md)");
  add_trace_check(trace);
  add_trace_show(trace);
  auto options = std::make_shared<std::pair<std::string, std::string>>();
  Command& command = trace.subcommand("diff",
                                      "compare all texts of two recorded runs; exits with 1 when any differ, "
                                      "with 4 when the second one's draft is worse");
  command.option("A", options->first, "a trace, spectrace/2").required();
  command.option("B", options->second, "another trace").required();
  command.action([options] { return diff(options->first, options->second); });
}

}  // namespace draftproof
