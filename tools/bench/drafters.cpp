// SPDX-License-Identifier: MIT
// Whole decoding with drafts and plain, for texts of several kinds, and all of them together. Beside the measured speed
// stands what it should be by the costs of the parts: every round costs its verification pass, measured in the same
// repeats, and its draft.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/decoding/engine.h"
#include "tools/bench/bench.h"
#include "tools/bench/workloads.h"
#include "tools/opened_model.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

struct BenchDraftersOptions {
  CommonOptions common;
  std::vector<std::string> drafts;
  std::string prompts_file;  // a prompt in each line; empty: the workloads
  std::vector<int> lengths;  // of --draft-max; empty: the drafts' own
  int repeats = 5;
};

/// Decoding with one draft and one --draft-max. The first of a text is plain decoding.
struct DecodingWay {
  std::string draft;
  int draft_max = 0;
  int index = 0;     // of the timer's case
  Trace trace = {};  // of the last run; all runs are equal except for their times
  std::vector<Statistics> runs = {};

  std::string length() const {
    if (draft == "none") return "";
    return draft_max == Execution::draft_max_auto ? "auto" : draft_max == 0 ? "own" : std::to_string(draft_max);
  }
  double output() const { return static_cast<double>(trace.output.size()); }
};

int rows_of(const Round& round) { return 1 + round.proposal.size(); }

/// One text, continued in every way.
struct DraftComparison {
  std::string name;
  Request request;
  const InterleavedTimer& timer;
  std::vector<DecodingWay> ways;
  std::map<int, int> passes = {};  // the timer's case, by rows of the pass

  double pass_seconds(int rows) const { return timer.seconds(passes.at(rows)).median; }

  /// The seconds of all verification passes.
  double verifying(const DecodingWay& way) const {
    double seconds = 0;
    for (const Round& round : way.trace.rounds) seconds += pass_seconds(rows_of(round));
    return seconds;
  }

  /// The median seconds of one part of the decoding loop.
  static double part(const DecodingWay& way, double Statistics::*part) {
    std::vector<double> seconds;
    for (const Statistics& run : way.runs) seconds.push_back(run.*part);
    return spread_of(seconds).median;
  }

  /// The speedup if drafting were free.
  double possible(const DecodingWay& way) const { return way.output() * pass_seconds(1) / verifying(way); }

  /// The speedup by the costs of passes, draft and rule.
  double expected(const DecodingWay& way) const {
    const auto seconds = [&](const DecodingWay& one) {
      return verifying(one) + part(one, &Statistics::draft_seconds) + part(one, &Statistics::validate_seconds);
    };
    return (way.output() / seconds(way)) / (ways.front().output() / seconds(ways.front()));
  }

  /// How many times as fast as plain decoding, repeat by repeat.
  Spread speed_up(const DecodingWay& way) const {
    const Spread inverse = timer.ratio(way.index, ways.front().index);
    const double tokens = way.output() / ways.front().output();
    return {tokens / inverse.median, tokens / inverse.max, tokens / inverse.min};
  }

  static double per_round(const DecodingWay& way, double seconds) {
    return way.trace.rounds.empty() ? 0 : 1e3 * seconds / static_cast<double>(way.trace.rounds.size());
  }
};

/// One way over all texts.
struct Total {
  double seconds = 0;  // medians
  double output = 0;   // tokens
  double rounds = 0;

  double speed() const { return output / seconds; }
};

/// The totals of all ways, in their order.
class DraftTotals {
 public:
  void add(const DraftComparison& all) {
    ways_ = all.ways;
    totals_.resize(ways_.size());
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      totals_[i].seconds += all.timer.seconds(all.ways[i].index).median;
      totals_[i].output += all.ways[i].output();
      totals_[i].rounds += static_cast<double>(all.ways[i].trace.rounds.size());
    }
    ++texts_;
  }

  int texts() const noexcept { return texts_; }

  std::string text() const {
    std::string text = fmt::format("all {} texts\n{:<44}  {:>5}  {:>8}  {:>7}  {:>6}  {:>6}  {:>12}\n", texts_, "draft",
                                   "max", "tokens/s", "speedup", "tokens", "rounds", "tokens/round");
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      const Total& total = totals_[i];
      text += fmt::format("{:<44}  {:>5}  {:>8.1f}  {:>7.3f}  {:>6}  {:>6}  {:>12.2f}\n", ways_[i].draft,
                          ways_[i].length(), total.speed(), total.speed() / totals_.front().speed(), total.output,
                          total.rounds, total.output / total.rounds);
    }
    return text + "\n";
  }

  nlohmann::ordered_json json() const {
    nlohmann::ordered_json json;
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      const Total& total = totals_[i];
      json.push_back({{"draft", ways_[i].draft},
                      {"draft_max", ways_[i].length()},
                      {"tokens", total.output},
                      {"rounds", total.rounds},
                      {"tokens_per_second", total.speed()},
                      {"speed_up", total.speed() / totals_.front().speed()}});
    }
    return json;
  }

 private:
  std::vector<DecodingWay> ways_;
  std::vector<Total> totals_;
  int texts_ = 0;
};

std::string text_of(const DraftComparison& all) {
  std::string text = fmt::format("{}: {} tokens after {}\n", all.name, all.ways.front().trace.output.size(),
                                 all.request.prompt.size());
  text += fmt::format("{:<44}  {:>5}  {:>8}  {:>7}  {:<14}  {:>8}  {:>8}  {:>12}  {:>9}  {:>8}  {:>7}  {}\n", "draft",
                      "max", "tokens/s", "speedup", "(min..max)", "expected", "possible", "tokens/round", "verify ms",
                      "draft ms", "rule ms", "accepted by depth");
  for (const DecodingWay& way : all.ways) {
    const Spread up = all.speed_up(way);
    const std::vector<StageStatistics> stages = statistics_by_stage(way.trace);
    std::string depths;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      depths += (i == 0 ? "" : " | ") + accepted_by_depth_text(stages[i]);
    }
    text += fmt::format(
        "{:<44}  {:>5}  {:>8.1f}  {:>7.2f}  {:<14}  {:>8.2f}  {:>8.2f}  {:>12.2f}  {:>9.3f}  {:>8.3f}"
        "  {:>7.3f}  {}\n",
        way.draft, way.length(), way.output() / all.timer.seconds(way.index).median, up.median,
        fmt::format("({:.2f}..{:.2f})", up.min, up.max), all.expected(way), all.possible(way),
        way.trace.tokens_per_round(), DraftComparison::per_round(way, all.verifying(way)),
        DraftComparison::per_round(way, DraftComparison::part(way, &Statistics::draft_seconds)),
        DraftComparison::per_round(way, DraftComparison::part(way, &Statistics::validate_seconds)), depths);
  }
  return text + "\n";
}

nlohmann::ordered_json json_of(const DraftComparison& all) {
  nlohmann::ordered_json json = {{"text", all.name}, {"prompt_tokens", all.request.prompt.size()}};
  for (const DecodingWay& way : all.ways) {
    json["drafts"].push_back(
        {{"draft", way.draft},
         {"draft_max", way.length()},
         {"milliseconds", spread_json(all.timer.seconds(way.index), 1e3)},
         {"speed_up", spread_json(all.speed_up(way))},
         {"expected_speed_up", all.expected(way)},
         {"possible_speed_up", all.possible(way)},
         {"milliseconds_to_verify_a_round", DraftComparison::per_round(way, all.verifying(way))},
         {"milliseconds_to_draft_a_round",
          DraftComparison::per_round(way, DraftComparison::part(way, &Statistics::draft_seconds))},
         {"milliseconds_to_judge_a_round",
          DraftComparison::per_round(way, DraftComparison::part(way, &Statistics::validate_seconds))},
         {"statistics", statistics_json(way.trace, way.draft)}});
  }
  for (const auto& [rows, index] : all.passes) {
    json["passes"].push_back({{"rows", rows},
                              {"milliseconds", spread_json(all.timer.seconds(index), 1e3)},
                              {"cost", spread_json(all.timer.ratio(index, all.passes.at(1)))}});
  }
  return json;
}

/// Adds the cases: decoding in every way, and passes over as many rows as verification passes had.
void measure(DraftComparison& all, InterleavedTimer& timer, Engine& engine, const Rule& rule,
             const CommonOptions& common, const BenchOptions& bench) {
  const auto decode = [&](DecodingWay& way) {
    PhiloxSource random(common.seed);
    Execution execution = make_execution(common);
    execution.draft_max = way.draft_max;
    Trace trace = engine.decode(
        {.request = all.request, .execution = execution, .draft = way.draft, .rule = rule, .random = random});
    way.runs.push_back(trace.statistics);
    return trace;
  };
  all.passes[1] = 0;
  for (DecodingWay& way : all.ways) {
    way.trace = decode(way);  // the passes of this run are timed; the tuner may choose others in the next
    for (const Round& round : way.trace.rounds) all.passes[rows_of(round)] = 0;
    way.index = timer.add(way.draft, [&decode, &way] { return decode(way).statistics.decode_seconds(); });
  }
  const int max = all.passes.rbegin()->first;
  const int middle = static_cast<int>(all.request.prompt.size() + all.ways.front().trace.output.size() / 2);
  RolledBackPasses passes(engine.target(), std::min(middle, engine.target().context() - max), max);
  for (auto& [rows, index] : all.passes) {
    index = timer.add_whole(fmt::format("{} rows", rows), [&passes, rows = rows] { passes.pass(rows); });
  }
  timer.run(bench);
}

/// The texts to continue: the prompts that are given, or one of each kind.
std::vector<std::pair<std::string, Request>> texts_of(const BenchDraftersOptions& options, OpenedModel& model) {
  const CommonOptions& common = options.common;
  const Checkpoint& files = model.files().target();
  const Tokenizer* const tokenizer = model.tokenizer_to_read(common);
  std::vector<std::pair<std::string, Request>> texts;
  if (!options.prompts_file.empty()) {
    Incoming bytes(options.prompts_file);
    std::istream file(&bytes);
    for (std::string line; std::getline(file, line);) {
      CommonOptions one = common;
      one.prompt = line;
      texts.emplace_back(fmt::format("prompt {}", texts.size() + 1), make_request(one, files, tokenizer));
    }
    if (texts.empty()) throw Error(options.prompts_file + ": holds no prompt; it has one in each line");
    return texts;
  }
  if (!common.prompt.empty() || !common.prompt_file.empty() || !common.prompt_tokens.empty() ||
      prompt_is_piped(common)) {
    return {{"prompt", make_request(common, files, tokenizer)}};
  }
  for (const Workload& workload : workloads) {
    CommonOptions one = common;
    one.prompt = workload.prompt;
    texts.emplace_back(workload.name, make_request(one, files, tokenizer));
  }
  return texts;
}

Exit bench_drafters(const BenchDraftersOptions& options) {
  const CommonOptions& common = options.common;
  if (common.max_new_tokens < 1) throw Error("--max-new-tokens is 0; there is nothing to compare without a new token");
  const BenchOptions bench = {threads_to_use(common), options.repeats, common.json_file, common.quiet};
  std::vector<std::string> sources{common.target, common.prompt_file, options.prompts_file};
  for (const std::string& draft : options.drafts) {
    for (const std::string& path : parse_draft_spec(draft).paths()) sources.push_back(path);
  }
  const auto json_file = bench_json_file(bench, sources);
  OpenedModel model({common.target, common.load_options, {.number = bench.threads}, bench.quiet});
  const auto texts = texts_of(options, model);
  const Rule& rule = rule_by_name(common.rule);
  const auto by_prompt = [](const auto& text) { return text.second.prompt.size(); };
  const Request& longest = std::ranges::max_element(texts, {}, by_prompt)->second;
  Engine& engine = model.load(options.drafts, longest, common.draft_max.number);
  const Kernels& kernels = engine.kernels();
  for (const auto& [name, request] : texts) {
    if (const std::string why = request_error(request, engine.target()); !why.empty()) throw Error(why);
  }
  for (const std::string& draft : options.drafts) model.require_draft(draft);
  std::vector<DecodingWay> ways = {{"none"}};
  for (const std::string& draft : options.drafts) {
    if (options.lengths.empty()) ways.push_back({draft, common.draft_max.number});
    for (const int length : options.lengths) ways.push_back({draft, length});
    const bool tuned = ways.back().draft_max != Execution::draft_max_auto && Engine::tuning_error(draft).empty();
    if (tuned) ways.push_back({draft, Execution::draft_max_auto});
  }

  const Roofline roofline(roofline_bytes);
  const std::string what = fmt::format("{}: {}, {} threads, {}, temperature {:g}", common.target, kernels.name,
                                       threads(), rule.name, common.sampling.temperature);
  if (shows_text(bench)) {
    std::cout << what << "\nverify, draft and rule ms are per round\n\n" << std::flush;
  }
  nlohmann::ordered_json json = {{"command", "bench drafters"},
                                 {"target", common.target},
                                 {"kernels", kernels.name},
                                 {"numerics", kernels.numerics},
                                 {"quantize", common.load_options.quantize},
                                 {"kv", common.load_options.kv},
                                 {"threads", threads()},
                                 {"rule", common.rule},
                                 {"temperature", common.sampling.temperature}};
  DraftTotals totals;
  for (const auto& [name, request] : texts) {
    InterleavedTimer timer(roofline);
    DraftComparison all{name, request, timer, ways};
    with_workers([&] { measure(all, timer, engine, rule, common, bench); });
    if (shows_text(bench)) std::cout << text_of(all) << std::flush;
    json["repeats"] = timer.repeats();
    json["limits"] = timer.limits_json();
    json["texts"].push_back(json_of(all));
    totals.add(all);
  }
  if (totals.texts() > 1) {
    if (shows_text(bench)) std::cout << totals.text();
    json["all"] = totals.json();
  }
  if (json_file) json_file->write(dumped(json));
  return Exit::pass;
}

}  // namespace

void add_bench_drafters(Command& bench) {
  auto options = std::make_shared<BenchDraftersOptions>();
  options->common.max_new_tokens = 256;
  Command& command = bench.subcommand(
      "drafters", "whole decoding, with drafts and plain; without a prompt, of a story, an edited text and code");
  add_common_options(command, options->common);
  add_drafts_option(command, options->drafts).required();
  command.option("--prompts", options->prompts_file, "a file with a prompt in each line");
  command
      .option("--draft-lengths", options->lengths,
              "compare these draft tokens per round, at most, with what the tuner chooses")
      .separator(',')
      .range(1, 1024);
  add_repeats_option(command, options->repeats);
  command.action([options] { return bench_drafters(*options); });
}

}  // namespace draftproof
