// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/statistics.h"
#include "tools/trace_files.h"

namespace draftproof {
namespace {

struct GenerateOptions {
  CommonOptions common;
  std::string draft = "none";
  std::string gate = "open";
  bool statistics = false;
  bool logprobs = false;
  TraceFileNames trace;
};

/// Prints tokens as they are decoded: as text, or as ids between commas when there is no tokenizer.
class Printer {
 public:
  Printer(const Tokenizer* tokenizer, bool silent) : tokenizer_(tokenizer), silent_(silent) {
    if (tokenizer != nullptr) stream_ = std::make_unique<TextStream>(*tokenizer);
  }
  void prompt(const std::vector<Token>& tokens) {
    if (stream_ && !silent_) std::cout << tokenizer_->decode(tokens) << std::flush;
  }
  void output(std::span<const Token> tokens) {
    if (silent_) return;
    for (const Token token : tokens) {
      std::cout << (stream_ ? stream_->push(token) : (first_ ? "" : ",") + std::to_string(token));
      first_ = false;
    }
    std::cout << std::flush;
  }
  void finish() {
    if (!silent_) std::cout << (stream_ ? stream_->finish() : "") << std::endl;
  }

 private:
  const Tokenizer* tokenizer_;
  bool silent_;
  bool first_ = true;
  std::unique_ptr<TextStream> stream_;
};

nlohmann::ordered_json json_of(const GenerateOptions& options, const Engine& engine, Gate gate, const Trace& trace,
                               const Tokenizer* tokenizer) {
  nlohmann::ordered_json json = {
      {"command", "generate"},
      {"target", options.common.target},
      {"draft", options.draft},
      {"gate", name_of(gate)},
      {"kernels", engine.kernels().name},
      {"numerics", engine.numerics()},
      {"rule", options.common.rule},
      {"seed", options.common.seed},
      {"prompt_tokens", trace.request.prompt},
      {"tokens", trace.output},
      {"finish", name_of(trace.finish)},
      {"statistics", statistics_json(trace)},
  };
  if (tokenizer != nullptr) json["text"] = tokenizer->decode(trace.output);
  if (options.logprobs) {
    for (const Round& round : trace.rounds) {
      for (const double logprob : round.logprobs) json["logprobs"].push_back(logprob);
    }
  }
  return json;
}

Exit generate(const GenerateOptions& options) {
  const CommonOptions& common = options.common;
  set_threads(threads_of(common));
  ModelFiles files(common.target);
  auto tokenizer = tokenizer_to_read(common, files.target());
  Request request = make_request(common, files.target(), tokenizer.get());
  if (!tokenizer) tokenizer = tokenizer_to_write(common, files.target());
  request.logprobs = options.logprobs;
  const Rule& rule = rule_by_name(common.rule);
  std::unique_ptr<OutputFile> json_file;
  if (!common.json_file.empty()) {
    json_file = std::make_unique<OutputFile>(common.json_file, std::vector{common.target, common.prompt_file});
  }
  if (!options.trace.trace.empty()) require_chains(options.draft, "a trace");
  TraceFiles traced(options.trace, common, {common.target, common.prompt_file, common.json_file});
  const bool silent = common.quiet || is_standard_output(common.json_file) || traced.takes_output();
  Progress progress(common.quiet);
  LoadOptions load_options = layout_of(common.load_options);
  load_options.observer = progress.observer();
  refuse_shortage(files, std::span(&options.draft, 1), load_options, request, common.draft_max, traced.asked());
  Engine engine(files, load_options);
  if (const std::string why = request_error(request, engine.target()); !why.empty()) throw Error(why);
  const Gate gate = engine.gate(options.draft, options.logprobs && options.gate == "seed");
  if (gate != Gate::open && gate != Gate::no_draft) {
    complain(fmt::format("speculation is off, decoding plainly: {}", name_of(gate)));
  }

  Printer printer(tokenizer.get(), silent);
  printer.prompt(request.prompt);
  spectrace::Writer* writer = nullptr;
  if (traced.asked()) {
    writer = &traced.begin(common.target, engine.target().vocabulary(), rule, common.seed);
    writer->begin({options.draft, engine.kernels().name, engine.numerics()});
  }
  const auto on_round = [&](const Trace& so_far) {
    if (writer != nullptr) writer->add_round(so_far);
    printer.output(so_far.rounds.back().emitted);
    return Next::go_on;
  };
  PhiloxSource random(common.seed);
  const Trace trace = engine.decode(std::move(request), execution_of(common),
                                    gate == Gate::open ? options.draft : "none", rule, random, Recording::counts,
                                    {on_round, traced.asked()}, watch_for_interrupt());
  printer.finish();

  if (options.logprobs && !silent) {
    for (const Round& round : trace.rounds) {
      for (std::size_t i = 0; i < round.emitted.size(); ++i) {
        fmt::print("{}\t{:.6f}\n", round.emitted[i], round.logprobs[i]);
      }
    }
  }
  if (options.statistics) fmt::print(stderr, "{}", statistics_text(trace, gate));
  if (json_file) json_file->write(dumped(json_of(options, engine, gate, trace, tokenizer.get())));
  if (writer != nullptr) writer->end(trace);
  traced.finish();
  if (!std::cout) throw Error("standard output cannot be written to");
  return Exit::pass;
}

}  // namespace

void add_generate(Command& app) {
  auto options = std::make_shared<GenerateOptions>();
  Command& command = app.subcommand("generate", "continue a text");
  add_common_options(command, options->common);
  add_one_draft_option(command, options->draft);
  add_verification_option(command, options->common.verification);
  command.group("Output");
  command.flag("--stats", options->statistics, "print acceptance rate, mean accepted length and times on stderr");
  command.option("--gate", options->gate, "seed: --logprobs turns speculation off, as in the engines we started from")
      .choices({"open", "seed"})
      .show_default();
  command.flag("--logprobs", options->logprobs, "print the logprob of every token");
  add_trace_options(command, options->trace, "");
  command.action([options] { return generate(*options); });
}

}  // namespace draftproof
