// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/kernels.h"
#include "ref/base/error.h"
#include "ref/base/utf8.h"
#include "ref/decoding/engine.h"
#include "ref/decoding/stop_at_strings.h"
#include "ref/formats/printable.h"
#include "ref/models/models.h"
#include "ref/ranks/process_ranks.h"
#include "tools/commands.h"
#include "tools/complaint.h"
#include "tools/constraint_options.h"
#include "tools/end_options.h"
#include "tools/interrupt.h"
#include "tools/lookup_update.h"
#include "tools/opened_model.h"
#include "tools/pair.h"
#include "tools/saved_prefixes.h"
#include "tools/statistics.h"
#include "tools/trace_files.h"

namespace draftproof {
namespace {

struct GenerateOptions {
  CommonOptions common;
  std::string draft = "none";
  std::string gate = "open";
  std::string prediction_file;
  bool statistics = false;
  bool logprobs = false;
  int top_logprobs = 0;
  bool prompt_logprobs = false;
  std::vector<std::string> stops;
  EndOptions ends;
  ConstraintOptions constraints;
  PrefixCacheOptions prefixes;
  std::string lookup_file;  // empty: nothing is counted
  TraceFileNames trace;
};

/// The text of an output up to its first stop string.
struct OutputText {
  std::string text;
  std::optional<StopMatch> stop;
};

OutputText text_of(std::span<const Token> output, const Tokenizer& tokenizer, const StopStrings& stops) {
  TextStream stream(tokenizer, stops, true, TextPlace::continuation);
  std::string text;
  for (const Token token : output) text += stream.push(token);
  text += stream.finish();
  return {text, stream.match()};
}

/// Prints the prompt and the tokens as they are decoded: as text up to the first stop string, or, when there is no
/// tokenizer, the tokens alone as ids between commas. Nothing is printed before the first round is decoded, and a line
/// that an error interrupts is ended.
class Printer {
 public:
  /// Everything outlives the printer.
  Printer(const Tokenizer* tokenizer, const StopStrings& stops, bool silent) : tokenizer_(tokenizer), silent_(silent) {
    if (tokenizer == nullptr) return;
    stream_ = std::make_unique<TextStream>(*tokenizer, stops, true, TextPlace::continuation);
  }
  ~Printer() {
    if (begun_) std::cout << std::endl;
  }
  Printer(const Printer&) = delete;
  Printer& operator=(const Printer&) = delete;

  void output(const std::vector<Token>& prompt, std::span<const Token> tokens) {
    if (silent_) return;
    if (!begun_ && stream_) std::cout << tokenizer_->decode(prompt);
    for (const Token token : tokens) {
      std::cout << (stream_ ? stream_->push(token) : (begun_ ? "," : "") + std::to_string(token));
      begun_ = true;
    }
    begun_ = true;
    std::cout << std::flush;
  }
  /// `prompt`: of a text without a round.
  void finish(const std::vector<Token>& prompt) {
    if (silent_) return;
    output(prompt, {});
    std::cout << (stream_ ? stream_->finish() : "") << std::endl;
    begun_ = false;
  }

 private:
  const Tokenizer* tokenizer_;
  bool silent_;
  bool begun_ = false;  // a line that is not ended
  std::unique_ptr<TextStream> stream_;
};

nlohmann::ordered_json json_of(const GenerateOptions& options, const Engine& engine, Gate gate, const Trace& trace,
                               const Tokenizer* tokenizer, const StopStrings& stops) {
  nlohmann::ordered_json json = {
      {"command", "generate"},
      {"target", options.common.target},
      {"draft", options.draft},
      {"gate", name_of(gate)},
      {"kernels", engine.kernels().name},
      {"numerics", engine.numerics()},
      {"threads", trace.threads},
      {"rule", options.common.rule},
      {"seed", options.common.seed},
      {"prompt_tokens", trace.request.prompt},
      {"reused", trace.reused},
      {"tokens", trace.output},
      {"finish", name_of(trace.finish)},
      {"statistics", statistics_json(trace, options.draft)},
  };
  if (const auto& adapters = options.common.load_options.lora; !adapters.empty()) json["lora"] = adapters;
  if (const auto& shift = trace.request.context_shift) {
    const int read = static_cast<int>(trace.request.prompt.size() + trace.output.size()) - 1;
    json["context_shift"] = {{"context", shift->context},
                             {"keep", shift->keep},
                             {"discard", shift->discard},
                             {"shifts", shift->dropped(read) / shift->discard},
                             {"dropped", shift->dropped(read)}};
  }
  if (tokenizer != nullptr) {
    const OutputText output = text_of(trace.output, *tokenizer, stops);
    json["text"] = output.text;
    if (output.stop) json["stop_string"] = stops.strings()[output.stop->string];
  }
  const auto list_of = [](const std::vector<TokenLogprob>& place) {
    auto list = nlohmann::ordered_json::array();
    for (const TokenLogprob& one : place) list.push_back({{"token", one.token}, {"logprob", one.logprob}});
    return list;
  };
  for (const PromptLogprob& place : trace.prompt_logprobs) {
    json["prompt_logprobs"].push_back(place.logprob);
    json["prompt_ranks"].push_back(place.rank);
    if (!place.top.empty()) json["prompt_top_logprobs"].push_back(list_of(place.top));
  }
  for (const Round& round : trace.rounds) {
    for (const double logprob : round.logprobs) json["logprobs"].push_back(logprob);
    for (const auto& place : round.top_logprobs) json["top_logprobs"].push_back(list_of(place));
  }
  return json;
}

/// Throws Error when the stop strings cannot be looked for.
void require_stop_strings(const GenerateOptions& options, const Tokenizer* tokenizer) {
  if (options.stops.empty()) return;
  for (const std::string& text : options.stops) {
    if (!utf8::is_valid(text)) throw Error("--stop: " + in_quotes(text) + " is not UTF-8, which every output is");
  }
  if (tokenizer == nullptr) {
    throw Error("--stop needs the text of tokens, and " + options.common.target + " has no tokenizer; leave it out");
  }
}

/// Prints each token, with its text as a string of JSON, and its logprob, and the most likely tokens with theirs.
void print_logprobs(const Trace& trace, const Tokenizer* tokenizer) {
  const auto named = [&](Token token) {
    std::string name = std::to_string(token);
    if (tokenizer == nullptr) return name;
    std::string text;
    tokenizer->append_bytes(token, true, text);
    return name + " " + nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const auto print = [&](Token token, double logprob, const std::vector<TokenLogprob>& top) {
    fmt::print("{}\t{:.6f}", named(token), logprob);
    for (const TokenLogprob& one : top) fmt::print("\t{}:{:.6f}", named(one.token), one.logprob);
    fmt::print("\n");
  };
  for (std::size_t i = 0; i < trace.prompt_logprobs.size(); ++i) {
    print(trace.request.prompt[i + 1], trace.prompt_logprobs[i].logprob, trace.prompt_logprobs[i].top);
  }
  for (const Round& round : trace.rounds) {
    for (std::size_t i = 0; i < round.emitted.size(); ++i) {
      print(round.emitted[i], round.logprobs[i],
            round.top_logprobs.empty() ? std::vector<TokenLogprob>() : round.top_logprobs[i]);
    }
  }
}

/// What is asked of the model.
struct GenerateInput {
  const Tokenizer* tokenizer;  // nullptr: the text is printed as ids
  Request request;
  StopStrings stops;
  GrammarText grammar;
  std::vector<Token> prediction;
};

/// The tokens of the text that the output is expected to be like.
std::vector<Token> read_prediction(const GenerateOptions& options, const Tokenizer* tokenizer) {
  if (options.prediction_file.empty()) return {};
  if (tokenizer == nullptr) {
    throw Error("--prediction is a text, and " + options.common.target + " has no tokenizer; leave it out");
  }
  try {
    return tokenizer->encode(read_text_file(options.prediction_file), false);
  } catch (const Error& wrong) {
    throw Error("--prediction: " + std::string(wrong.what()));
  }
}

GenerateInput make_input(const GenerateOptions& options, OpenedModel& model) {
  const CommonOptions& common = options.common;
  const Checkpoint& files = model.files().target();
  const Tokenizer* tokenizer = model.tokenizer_to_read(common);
  Request request = make_request(common, files, tokenizer);
  if (tokenizer == nullptr) tokenizer = model.tokenizer_to_write();
  request.logprobs = options.logprobs;
  request.top_logprobs = options.top_logprobs;
  request.prompt_logprobs = options.prompt_logprobs;
  require_stop_strings(options, tokenizer);
  set_stop_tokens(request, options.ends, files);
  GrammarText grammar = grammar_of(options.constraints);
  constrain(request, grammar, files, tokenizer, common.target);
  add_bans(request, options.ends, files, tokenizer, common.target);
  add_logit_biases(request, options.constraints, files);
  if (request.sampling.dries()) set_dry_breakers(request.sampling, common, model.tokenizer());
  std::vector<Token> prediction = read_prediction(options, tokenizer);
  return {tokenizer, std::move(request), StopStrings(options.stops), std::move(grammar), std::move(prediction)};
}

/// The files that are written. They are opened before the work.
struct ResultFiles {
  std::unique_ptr<SavedPrefixes> prefixes;  // nullptr: not asked for
  std::unique_ptr<LookupUpdate> lookup;     // nullptr: not asked for
  std::unique_ptr<OutputFile> json;         // nullptr: not asked for
  TraceFiles trace;
};

ResultFiles result_files_of(const GenerateOptions& options, int vocabulary) {
  if (options.ends.bans() && !options.trace.trace.empty()) {
    throw Error("--trace has no place for --min-tokens and --bad-word; leave these or the trace out");
  }
  const CommonOptions& common = options.common;
  std::vector<std::string> used = options.constraints.sources();
  used.insert(used.end(), {common.target, common.prompt_file, options.prediction_file});
  for (const std::string& path : paths_of_adapters(common.load_options)) used.push_back(path);
  std::unique_ptr<SavedPrefixes> prefixes;
  if (!options.prefixes.file.empty()) {
    prefixes = std::make_unique<SavedPrefixes>(options.prefixes, used);
    used.push_back(options.prefixes.file);
  }
  std::unique_ptr<LookupUpdate> lookup;
  if (!options.lookup_file.empty()) {
    lookup = std::make_unique<LookupUpdate>(options.lookup_file, used, vocabulary);
    used.push_back(options.lookup_file);
  }
  std::unique_ptr<OutputFile> json;
  if (!common.json_file.empty()) {
    json = std::make_unique<OutputFile>(common.json_file, used);
    used.push_back(common.json_file);
  }
  return {std::move(prefixes), std::move(lookup), std::move(json), TraceFiles(options.trace, common, used)};
}

/// Decodes the text, and prints and traces it meanwhile.
Trace decoded(const GenerateOptions& options, const GenerateInput& asked, Engine& engine, const std::string& draft,
              ResultFiles& files, Printer& printer, RankTraffic& traffic) {
  const CommonOptions& common = options.common;
  const Rule& rule = rule_by_name(common.rule);
  const bool traced = files.trace.asked();
  spectrace::Writer* writer = nullptr;
  if (traced) {
    writer = &files.trace.begin(engine.checkpoint(), engine.target().vocabulary(), rule, common.seed);
    const std::string& named = options.draft;
    const std::string name = asked.prediction.empty() ? named : named == "none" ? "prediction" : "prediction+" + named;
    writer->begin({name, engine.kernels().name, engine.numerics(), options.stops, asked.grammar.gbnf});
  }
  const auto on_round = [&](const Trace& so_far) {
    traffic.add_round(so_far);
    if (writer != nullptr) writer->add_round(so_far);
    printer.output(so_far.request.prompt, so_far.rounds.back().emitted);
    return Next::go_on;
  };
  std::unique_ptr<StopAtStrings> stop;
  if (!options.stops.empty()) stop = std::make_unique<StopAtStrings>(*asked.tokenizer, asked.stops);
  PhiloxSource random(common.seed);
  const Execution execution = traced ? make_execution(common) : execution_to_write(common, draft);
  Trace trace = engine.decode({.request = asked.request,
                               .execution = execution,
                               .draft = draft,
                               .prediction = asked.prediction,
                               .rule = rule,
                               .random = random,
                               .watch = {on_round, traced},
                               .cancelled = watch_for_interrupt(),
                               .stop = stop.get()},
                              files.prefixes ? &files.prefixes->cache() : nullptr);
  printer.finish(trace.request.prompt);
  if (writer != nullptr) writer->end(trace);
  return trace;
}

Exit generate(const GenerateOptions& options) {
  const CommonOptions& common = options.common;
  OpenedModel model({common.target, common.load_options, common.threads, common.quiet});
  const GenerateInput asked = make_input(options, model);
  ResultFiles files = result_files_of(options, describe(model.files().target().config()).vocabulary);
  Engine& engine = model.load({options.draft}, asked.request, common.draft_max.number, files.trace.asked());
  if (const std::string why = request_error(asked.request, engine.target()); !why.empty()) throw Error(why);
  const OpenedModel::UsedDraft used =
      model.draft_to_write(options.draft, asked.request, options.logprobs && options.gate == "seed");
  if (files.prefixes) {
    files.prefixes->begin(engine, used.name);
    files.prefixes->load(engine, used.name);
  }

  const bool silent = common.quiet || is_standard_output(common.json_file) || files.trace.takes_output();
  Printer printer(asked.tokenizer, asked.stops, silent);
  RankTraffic traffic(process_ranks());
  const Trace trace = decoded(options, asked, engine, used.name, files, printer, traffic);
  if (used.too_short.empty() && !common.quiet) {  // a translated draft, which cannot tell before
    const std::string too_short = short_draft_text(trace.draft_reach, asked.request);
    if (!too_short.empty()) complain(too_short);
  }
  if (options.logprobs && !silent) print_logprobs(trace, asked.tokenizer);
  if (options.statistics) {
    fmt::print(stderr, "{}{}", statistics_text(trace, used.gate, options.draft), traffic.text());
    if (files.prefixes) {
      fmt::print(stderr, "{} of {} prompt positions came from the prefix cache\n", trace.reused,
                 trace.request.prompt.size());
    }
  }
  if (files.json) files.json->write(dumped(json_of(options, engine, used.gate, trace, asked.tokenizer, asked.stops)));
  files.trace.finish();
  if (files.lookup) {
    files.lookup->count(trace.request.prompt, trace.output);
    files.lookup->save();
  }
  if (files.prefixes) files.prefixes->save();
  return Exit::pass;
}

}  // namespace

void add_generate(Command& app) {
  auto options = std::make_shared<GenerateOptions>();
  Command& command = app.subcommand("generate", "continue a text");
  add_common_options(command, options->common, TakesPair::yes);
  add_one_draft_option(command, options->draft);
  command.option("--prediction FILE", options->prediction_file,
                 "a text that the output is expected to be like, as an edited file: it is drafted where the output "
                 "follows it, before the draft is asked");
  add_verification_option(command, options->common.verification);
  add_context_shift_option(command, options->common.context_shift);
  command.group("Output");
  command.flag("--stats", options->statistics, "print acceptance rate, mean accepted length and times on stderr");
  command.option("--gate", options->gate, "seed: --logprobs turns speculation off, as in the engines we started from")
      .choices({"open", "seed"})
      .show_default();
  Option& logprobs = command.flag("--logprobs", options->logprobs, "print the logprob of every token");
  command.option("--top-logprobs N", options->top_logprobs, "also print the N most likely tokens at its place")
      .range(0, Request::top_logprobs_max)
      .show_default()
      .needs(logprobs);
  command
      .flag("--prompt-logprobs", options->prompt_logprobs, "also print both of the prompt's tokens; -n 0 for no others")
      .needs(logprobs);
  command.group("Prompt");
  command
      .option("--stop STRING", options->stops,
              "end the text before this string, taken as it is, without escapes; may be given several times")
      .one_each_time();
  add_end_options(command, options->ends);
  add_constraint_options(command, options->constraints);
  add_prefix_cache_options(command, options->prefixes);
  command.group("Speculative decoding");
  command.option("--lookup-update FILE", options->lookup_file,
                 "a lookup file, which ngram-cache:FILE reads: what followed every two tokens of the text is counted "
                 "into it at the end; it is made when there is none");
  command.group("Output");
  add_trace_options(command, options->trace, "");
  command.action([options, &command] {
    use_pair(command, options->common.target, options->draft, options->common.load_options);
    return generate(*options);
  });
}

}  // namespace draftproof
