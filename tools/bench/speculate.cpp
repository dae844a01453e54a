// SPDX-License-Identifier: MIT
// Whole decoding with drafts and plain, and the speedup that would be possible at the measured acceptance: every round
// costs its verification pass, measured in the same repeats, and drafting costs nothing.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tools/bench/bench.h"
#include "tools/progress.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

struct BenchSpeculateOptions {
  CommonOptions common;
  std::vector<std::string> drafts;
  int repeats = 5;
};

/// Decoding with one draft. The first one is plain autoregressive decoding.
struct BenchedDraft {
  explicit BenchedDraft(std::string name) : draft(std::move(name)) {}
  std::string draft;
  int index = 0;
  Trace trace;  // of the last run; all runs are equal except for their times
  std::vector<Statistics> runs;
};

int rows_of(const Round& round) { return 1 + round.proposal.size(); }

struct Comparison {
  const BenchSpeculateOptions& options;
  const Kernels& kernels;
  const InterleavedTimer& timer;
  std::vector<BenchedDraft> ways;
  std::map<int, int> passes;  // index of the case, by rows of the pass

  double pass_seconds(int rows) const { return timer.seconds(passes.at(rows)).median; }

  /// Returns the speedup if drafting were free.
  double possible(const BenchedDraft& way) const {
    double seconds = 0;
    for (const Round& round : way.trace.rounds) seconds += pass_seconds(rows_of(round));
    return static_cast<double>(way.trace.output.size()) * pass_seconds(1) / seconds;
  }

  /// Returns how many times as fast as plain decoding, repeat by repeat.
  Spread speed_up(const BenchedDraft& way) const {
    const Spread inverse = timer.ratio(way.index, ways.front().index);
    return {1 / inverse.median, 1 / inverse.most, 1 / inverse.least};
  }

  /// Returns the median milliseconds per draft token of one part of the decoding loop.
  double each_draft_token(const BenchedDraft& way, double Statistics::*part) const {
    std::vector<double> seconds;
    for (const Statistics& run : way.runs) seconds.push_back(run.*part);
    return way.trace.statistics.drafted == 0 ? 0 : 1e3 * spread_of(seconds).median / way.trace.statistics.drafted;
  }
};

std::string text_of(const Comparison& all) {
  std::string text = fmt::format("{}: {}, {} threads, {} tokens after {}, {} repeats\n", all.options.common.target,
                                 all.kernels.name, threads(), all.ways.front().trace.output.size(),
                                 all.ways.front().trace.request.prompt.size(), all.timer.repeats());
  text += fmt::format("{:<36}  {:>8}  {:>7}  {:<14}  {:>8}  {:>10}  {:>8}  {:>8}\n", "draft", "tokens/s", "speedup",
                      "(min..max)", "possible", "acceptance", "draft ms", "rule ms");
  for (const BenchedDraft& way : all.ways) {
    const Spread up = all.speed_up(way);
    text += fmt::format("{:<36}  {:>8.1f}  {:>7.2f}  {:<14}  {:>8.2f}  {:>10.3f}  {:>8.3f}  {:>8.3f}\n", way.draft,
                        static_cast<double>(way.trace.output.size()) / all.timer.seconds(way.index).median, up.median,
                        fmt::format("({:.2f}..{:.2f})", up.least, up.most), all.possible(way),
                        way.trace.statistics.acceptance(), all.each_draft_token(way, &Statistics::draft_seconds),
                        all.each_draft_token(way, &Statistics::validate_seconds));
  }
  text += "draft ms and rule ms are per draft token: drafting it, and applying the acceptance rule\n";
  for (const auto& [rows, index] : all.passes) {
    text += fmt::format("a pass of {} rows: {:.3f} ms, {:.2f} times one row\n", rows, 1e3 * all.pass_seconds(rows),
                        all.timer.ratio(index, all.passes.at(1)).median);
  }
  return text;
}

nlohmann::ordered_json json_of(const Comparison& all) {
  nlohmann::ordered_json json = {{"command", "bench speculate"},
                                 {"target", all.options.common.target},
                                 {"kernels", all.kernels.name},
                                 {"numerics", all.kernels.numerics},
                                 {"quantize", all.options.common.load_options.quantize},
                                 {"kv", all.options.common.load_options.kv},
                                 {"threads", threads()},
                                 {"rule", all.options.common.rule},
                                 {"repeats", all.timer.repeats()},
                                 {"limits", all.timer.limits_json()}};
  for (const BenchedDraft& way : all.ways) {
    json["drafts"].push_back({{"draft", way.draft},
                              {"milliseconds", spread_json(all.timer.seconds(way.index), 1e3)},
                              {"speed_up", spread_json(all.speed_up(way))},
                              {"possible_speed_up", all.possible(way)},
                              {"milliseconds_to_draft", all.each_draft_token(way, &Statistics::draft_seconds)},
                              {"milliseconds_to_judge_a_draft_token",
                               all.each_draft_token(way, &Statistics::validate_seconds)},
                              {"statistics", statistics_json(way.trace)}});
  }
  for (const auto& [rows, index] : all.passes) {
    json["passes"].push_back({{"rows", rows},
                              {"milliseconds", spread_json(all.timer.seconds(index), 1e3)},
                              {"cost", spread_json(all.timer.ratio(index, all.passes.at(1)))}});
  }
  return json;
}

/// Adds the cases: decoding with every draft, and passes over as many rows as verification passes had.
void measure(Comparison& all, InterleavedTimer& timer, Engine& engine, const Request& request, const Rule& rule,
             const BenchOptions& bench) {
  const auto decode = [&](BenchedDraft& way) {
    PhiloxSource random(all.options.common.seed);
    way.trace = engine.decode(request, execution_of(all.options.common), way.draft, rule, random);
    way.runs.push_back(way.trace.statistics);
    return way.trace.statistics.decode_seconds();
  };
  all.passes[1] = 0;
  for (BenchedDraft& way : all.ways) {
    decode(way);
    for (const Round& round : way.trace.rounds) all.passes[rows_of(round)] = 0;
    way.index = timer.add(way.draft, [&decode, &way] { return decode(way); });
  }
  const int most = all.passes.rbegin()->first;
  const int middle = static_cast<int>(request.prompt.size() + all.ways.front().trace.output.size() / 2);
  RolledBackPasses passes(engine.target(), std::min(middle, engine.target().context() - most), most);
  for (auto& [rows, index] : all.passes) {
    index = timer.add_whole(fmt::format("{} rows", rows), [&passes, rows = rows] { passes.pass(rows); });
  }
  timer.run(bench);
}

Exit bench_speculate(const BenchSpeculateOptions& options) {
  const CommonOptions& common = options.common;
  set_threads(threads_of(common));
  const BenchOptions bench = {common.threads, options.repeats, common.json_file, common.quiet};
  std::vector<std::string> sources{common.target, common.prompt_file};
  for (const std::string& draft : options.drafts) {
    for (const std::string& path : parse_draft_spec(draft).paths()) sources.push_back(path);
  }
  const auto json_file = bench_json_file(bench, sources);
  ModelFiles files(common.target);
  const Request request = make_request(common, files.target(), tokenizer_to_read(common, files.target()).get());
  const Rule& rule = rule_by_name(common.rule);
  const Kernels& kernels = kernels_by_name(common.load_options.kernels);
  Progress progress(common.quiet);
  LoadOptions load_options = layout_of(common.load_options);
  load_options.observer = progress.observer();
  refuse_shortage(files, options.drafts, load_options, request, common.draft_max);
  Engine engine(files, load_options);
  if (const std::string why = request_error(request, engine.target()); !why.empty()) throw Error(why);

  const Roofline roofline(roofline_bytes);
  InterleavedTimer timer(roofline);
  Comparison all{options, kernels, timer, {}, {}};
  all.ways.emplace_back("none");
  for (const std::string& draft : options.drafts) {
    if (const Gate gate = engine.gate(draft); gate != Gate::open) {
      throw Error(fmt::format("speculation is off for draft {}: {}", draft, name_of(gate)));
    }
    all.ways.emplace_back(draft);
  }
  with_workers([&] { measure(all, timer, engine, request, rule, bench); });
  if (shows_text(bench)) std::cout << text_of(all) << std::flush;
  if (json_file) json_file->write(dumped(json_of(all)));
  return Exit::pass;
}

}  // namespace

void add_bench_speculate(Command& bench) {
  auto options = std::make_shared<BenchSpeculateOptions>();
  Command& command = bench.subcommand("speculate", "whole decoding, with drafts and plain");
  add_common_options(command, options->common);
  add_drafts_option(command, options->drafts);
  add_repeats_option(command, options->repeats);
  command.action([options] { return bench_speculate(*options); });
}

}  // namespace draftproof
