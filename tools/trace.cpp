// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <iostream>

#include "oracle/spectrace/replay.h"
#include "oracle/spectrace/show.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tools/commands.h"
#include "tools/progress.h"
#include "tools/weights_digest.h"

namespace draftproof {
namespace {

struct TraceOptions {
  std::string file;
  std::string target;
  LayoutOptions layout;
  int threads = 0;
  double slack = 0;
  std::string json_file;
  bool quiet = false;
};

Exit exit_of(spectrace::Verdict verdict) {
  switch (verdict) {
    case spectrace::Verdict::pass_exact:
    case spectrace::Verdict::pass_stat: return Exit::pass;
    case spectrace::Verdict::bug_proven:
    case spectrace::Verdict::bug_stat: return Exit::divergence;
    case spectrace::Verdict::undecided:
    case spectrace::Verdict::vacuous: return Exit::undecided;
    case spectrace::Verdict::invalid_trace: return Exit::bad_input;
  }
  return Exit::bad_input;
}

/// The target in the class of equal bits asked for, if a table that may be used gives it: the one named, or any. One is
/// in memory at a time, but for sequences that go on.
class Targets {
 public:
  Targets(const TraceOptions& options, LoadingObserver observer) : file_(options.target) {
    Layout like = layout_of(options.layout);
    like.observer = std::move(observer);
    layouts_.push_back(like);
    for (const Kernels* const* table = all_kernels(); *table != nullptr && options.layout.kernels.empty(); ++table) {
      if ((*table)->supported() && unfit(**table)[0] == '\0') layouts_.push_back(with_table(**table, like));
    }
    load(like);
  }

  int vocabulary() const { return engine_->target().vocabulary(); }

  std::shared_ptr<Model> computing_in(const std::string& numerics) {
    for (const Layout& layout : layouts_) {
      if (numerics_of(layout) != numerics) continue;
      if (engine_->numerics() != numerics) load(layout);
      return {engine_, &engine_->target()};
    }
    return nullptr;
  }
  std::shared_ptr<Model> computing_anyhow() const { return {engine_, &engine_->target()}; }

 private:
  void load(const Layout& layout) {
    engine_.reset();
    engine_ = std::make_shared<Engine>(file_, layout);
  }

  std::string file_;
  std::vector<Layout> layouts_;
  std::shared_ptr<Engine> engine_;
};

Exit check(const TraceOptions& options) {
  std::unique_ptr<OutputFile> json_file;
  if (!options.json_file.empty()) {
    json_file = std::make_unique<OutputFile>(options.json_file, std::vector{options.file, options.target});
  }
  Progress progress(options.quiet);
  std::unique_ptr<Targets> targets;
  spectrace::Target target;
  if (!options.target.empty()) {
    CommonOptions common;
    common.threads = options.threads;
    set_threads(threads_of(common));
    targets = std::make_unique<Targets>(options, progress.observer());
    target = {targets->vocabulary(), [&](const std::string& numerics) { return targets->computing_in(numerics); },
              options.slack, [&] { return targets->computing_anyhow(); },
              [&] { return weights_digest(options.target); }};
  }
  const spectrace::Report report = spectrace::replay(options.file, target);
  if (!options.quiet && options.json_file != "-") std::cout << report_text(report) << std::flush;
  if (json_file) json_file->write(report_json(report));
  if (!std::cout) throw Error("standard output cannot be written to");
  return exit_of(report.verdict());
}

struct ShowOptions {
  std::string file;
  spectrace::Wanted wanted;
};

Exit show(const ShowOptions& options) {
  const long rounds = spectrace::show(options.file, options.wanted, [](const std::string& text) { std::cout << text; });
  std::cout << std::flush;
  if (!std::cout) throw Error("standard output cannot be written to");
  if (rounds == 0) throw Error(options.file + ": there is no such round");
  return Exit::pass;
}

Exit diff(const std::string& a, const std::string& b) {
  const spectrace::Parting parting = spectrace::first_parting(a, b);
  std::cout << parting.sentence << std::flush;
  if (!std::cout) throw Error("standard output cannot be written to");
  return parting.same ? Exit::pass : Exit::divergence;
}

}  // namespace

void add_trace(CLI::App& app, Exit& exit) {
  CLI::App* const trace = app.add_subcommand("trace", "check, show and compare recorded runs (docs/spectrace.md)");
  trace->require_subcommand(1);

  auto checked = std::make_shared<TraceOptions>();
  CLI::App* const command = trace->add_subcommand("check", "replay every decision of a recorded run");
  command->add_option("FILE", checked->file, "a trace, spectrace/1")->required();
  command->add_option("--target", checked->target, "the model it was made with: every p is computed again");
  command
      ->add_option("--slack", checked->slack,
                   "how far, in total variation, the p of an engine of other numerics may be from the target's")
      ->check(CLI::Range(0.0, 1.0))
      ->needs("--target");
  add_layout_options(*command, checked->layout);
  add_threads_option(*command, checked->threads);
  command->add_option("--json", checked->json_file, "write the report as JSON to this file, - for standard output");
  command->add_flag("--quiet", checked->quiet, "print nothing");
  command->callback([checked, &exit] { exit = check(*checked); });

  auto shown = std::make_shared<ShowOptions>();
  CLI::App* const show_command = trace->add_subcommand("show", "print rounds for people");
  show_command->add_option("FILE", shown->file, "a trace, spectrace/1")->required();
  show_command->add_option("--sequence", shown->wanted.sequence, "only this one");
  show_command->add_option("--round", shown->wanted.round, "only this one, of every sequence shown");
  show_command->callback([shown, &exit] { exit = show(*shown); });

  auto compared = std::make_shared<std::pair<std::string, std::string>>();
  CLI::App* const diff_command = trace->add_subcommand("diff", "where the texts of two recorded runs part");
  diff_command->add_option("A", compared->first, "a trace, spectrace/1")->required();
  diff_command->add_option("B", compared->second, "another")->required();
  diff_command->callback([compared, &exit] { exit = diff(compared->first, compared->second); });
}

}  // namespace draftproof
