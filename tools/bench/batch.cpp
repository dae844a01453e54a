// SPDX-License-Identifier: MIT
// Requests decoded together: how many tokens a second more sequences give, and how long each of them takes for a token.
// All prompts are read before the clock starts, so every pass that is timed verifies.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/decoding/draft_lengths.h"
#include "ref/decoding/engine.h"
#include "tools/bench/bench.h"
#include "tools/bench/target_work.h"
#include "tools/opened_model.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

struct BenchBatchOptions {
  BenchOptions bench;
  LayoutOptions load_options;
  std::string target;
  std::string draft = "none";
  NumberOrAuto draft_max = {.max = 1024};
  std::vector<int> sequences{1, 2, 4, 8, 16, 32};
  int prompt_length = 64;
  int max_new_tokens = 64;
};

struct BatchLine {
  int sequences;
  std::string draft;
  int index = 0;
  int mean_end = 0;                          // index of the mean time until a sequence ends
  std::optional<DraftLengths> lengths = {};  // learn in every run

  // Of the last run; all runs are equal except for their times.
  SchedulerCounts counts = {};
  double positions_read = 0;  // of keys and values, by all sequences in all passes

  double rows_per_pass() const { return static_cast<double>(counts.rows) / static_cast<double>(counts.passes); }
  double shared() const { return static_cast<double>(counts.shared) / static_cast<double>(counts.passes); }
};

/// Decodes batches. Checks that a sequence gets the same tokens in every run.
class Batches {
 public:
  Batches(const BenchBatchOptions& options, Engine& engine) : options_(options), engine_(engine) {
    text_ = bench_text(engine.target(), options.prompt_length + *std::ranges::max_element(options.sequences));
  }

  /// The memory for the caches of one sequence. Throws Error when a request does not fit the target.
  std::uint64_t cache_bytes() const {
    PhiloxSource random(0);
    const Engine::Opened opened = open(0, options_.draft, options_.draft_max.number, random, false);
    return opened.cost.of(opened.sequence->capacity());
  }

  /// What load decides the lengths of drafts by, as in a server; nullopt where it does not.
  std::optional<DraftCosts> costs_by_load() const {
    if (options_.draft_max.number != NumberOrAuto::automatic) return std::nullopt;
    return engine_.shared_pass_costs(options_.draft, {}, DraftLengths::rows_measured);
  }

  /// Decodes the first request alone and plainly. Its sequence must get these tokens in every batch.
  void decode_alone() {
    PhiloxSource random(0);
    expect_tokens(0, engine_.decode({.request = request(0), .random = random}).output);
  }

  struct Seconds {
    double all;
    double mean_end;
  };
  /// Reads every prompt in passes of its own, then decodes the sequences together. Returns times of the second part.
  Seconds decode(BatchLine& line);

 private:
  Request request(int sequence) const {
    Request request;
    const auto first = text_.begin() + sequence;
    request.prompt.assign(first, first + options_.prompt_length);
    request.max_new_tokens = options_.max_new_tokens;
    return request;
  }

  Engine::Opened open(int sequence, const std::string& draft, int draft_max, RandomSource& random,
                      bool limited_by_load) const {
    return engine_.open({.request = request(sequence),
                         .execution = {.draft_max = draft_max},
                         .draft = draft,
                         .random = random,
                         .limited_by_load = limited_by_load});
  }

  void expect_tokens(int sequence, const std::vector<Token>& output) {
    const auto [expected, is_first] = expected_.try_emplace(sequence, output);
    REQUIRE(is_first || expected->second == output, "a sequence gets the tokens that it gets alone");
  }

  const BenchBatchOptions& options_;
  Engine& engine_;
  std::vector<Token> text_;  // sequence i reads the part from i on
  std::map<int, std::vector<Token>> expected_;
};

void rethrow_error(const Sequence& sequence) {
  if (sequence.error()) std::rethrow_exception(sequence.error());
}

Batches::Seconds Batches::decode(BatchLine& line) {
  PhiloxSource random(0);
  std::vector<Engine::Opened> opened;
  for (int i = 0; i < line.sequences; ++i) {
    opened.push_back(
        open(i, line.draft, line.lengths ? 0 : options_.draft_max.number, random, line.lengths.has_value()));
    Sequence& sequence = *opened.back().sequence;
    Scheduler reader(engine_.target());
    reader.add(sequence);
    while (sequence.reading() && reader.step()) {
    }
    rethrow_error(sequence);
  }

  Scheduler scheduler(engine_.target(), {}, nullptr, line.lengths ? &*line.lengths : nullptr);
  for (const Engine::Opened& one : opened) scheduler.add(*one.sequence, one.cost);
  Seconds seconds = {};
  for (int running = line.sequences; running > 0; running = scheduler.running()) {
    seconds.all += timed([&] { scheduler.step(); });
    seconds.mean_end += (running - scheduler.running()) * seconds.all / line.sequences;
  }

  line.counts = scheduler.counts();
  line.positions_read = 0;
  for (int i = 0; i < line.sequences; ++i) {
    const Sequence& sequence = *opened[static_cast<std::size_t>(i)].sequence;
    rethrow_error(sequence);
    expect_tokens(i, sequence.trace().output);
    for (const Round& round : sequence.trace().rounds) line.positions_read += round.position + round.proposal.size();
  }
  return seconds;
}

struct BatchTable {
  const BenchBatchOptions& options;
  const Kernels& kernels;
  const InterleavedTimer& timer;
  TargetWork row_work;
  std::uint64_t bytes_per_position;  // of keys and values
  std::vector<BatchLine> lines;      // for each number of sequences: plain, then speculative

  bool speculates() const { return options.draft != "none"; }

  const BatchLine& line(int sequences, const std::string& draft) const {
    return *std::ranges::find_if(
        lines, [&](const BatchLine& one) { return one.sequences == sequences && one.draft == draft; });
  }

  Spread tokens_per_second(const BatchLine& one) const {
    const Spread seconds = timer.seconds(one.index);
    const double tokens = 1.0 * one.sequences * options.max_new_tokens;
    return {tokens / seconds.median, tokens / seconds.max, tokens / seconds.min};
  }

  /// Returns how many times as many tokens per second as `base`, repeat by repeat.
  Spread speed_up(const BatchLine& one, const BatchLine& base) const {
    const Spread ratio = timer.ratio(base.index, one.index);
    const double more = 1.0 * one.sequences / base.sequences;
    return {more * ratio.median, more * ratio.min, more * ratio.max};
  }
  Spread over_one_sequence(const BatchLine& one) const { return speed_up(one, line(1, one.draft)); }
  Spread over_plain(const BatchLine& one) const { return speed_up(one, line(one.sequences, "none")); }

  Work work(const BatchLine& one) const {
    Work work = row_work.pass(static_cast<int>(one.counts.rows));
    work.bytes *= static_cast<double>(one.counts.passes);
    work.bytes += one.positions_read * static_cast<double>(bytes_per_position);
    return work;
  }
};

std::string with_range(const Spread& spread, int digits) {
  return fmt::format("{:>8.{}f}  {:<16}", spread.median, digits,
                     fmt::format("({:.{}f}..{:.{}f})", spread.min, digits, spread.max, digits));
}

std::string text_of(const BatchTable& table) {
  const InterleavedTimer& timer = table.timer;
  std::string text = fmt::format("{}: {}, {} threads, {} tokens after {} for each sequence, {} repeats\n{}",
                                 table.options.target, table.kernels.name, threads(), table.options.max_new_tokens,
                                 table.options.prompt_length, timer.repeats(), timer.limits_text());
  text += fmt::format("{:>9}  {:>8}  {:<16}  {:>8}  {:>8}  {:<16}  {:>9}  {:>6}  {:>5}  {:>8}{}\n", "sequences",
                      "tokens/s", "(min..max)", "ms/token", "speedup", "(min..max)", "rows/pass", "shared", "GB/s",
                      "of limit", table.speculates() ? "    over plain          draft" : "");
  for (const BatchLine& line : table.lines) {
    const double seconds = timer.seconds(line.index).median;
    const Work work = table.work(line);
    text += fmt::format("{:>9}  {}  {:>8.2f}  {}  {:>9.1f}  {:>5.0f}%  {:>5.1f}  {:>7.0f}%", line.sequences,
                        with_range(table.tokens_per_second(line), 1),
                        1e3 * timer.seconds(line.mean_end).median / table.options.max_new_tokens,
                        with_range(table.over_one_sequence(line), 2), line.rows_per_pass(), 100 * line.shared(),
                        1e-9 * work.bytes / seconds, 100 * timer.seconds_min(work) / seconds);
    if (line.draft != "none") text += fmt::format("  {}  {}", with_range(table.over_plain(line), 2), line.draft);
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json json_of(const BatchTable& table) {
  const InterleavedTimer& timer = table.timer;
  nlohmann::ordered_json json = {{"command", "bench batch"},
                                 {"target", table.options.target},
                                 {"kernels", table.kernels.name},
                                 {"numerics", table.kernels.numerics},
                                 {"quantize", table.options.load_options.quantize},
                                 {"kv", table.options.load_options.kv},
                                 {"threads", threads()},
                                 {"prompt_length", table.options.prompt_length},
                                 {"max_new_tokens", table.options.max_new_tokens},
                                 {"repeats", timer.repeats()},
                                 {"limits", timer.limits_json()}};
  for (const BatchLine& line : table.lines) {
    nlohmann::ordered_json batch = {{"sequences", line.sequences}, {"draft", line.draft}};
    batch.update(timer.rates_json(line.index, table.work(line)));
    batch["tokens_per_second"] = spread_json(table.tokens_per_second(line));
    batch["milliseconds_per_token"] = spread_json(timer.seconds(line.mean_end), 1e3 / table.options.max_new_tokens);
    batch["speed_up"] = spread_json(table.over_one_sequence(line));
    batch["over_plain"] = spread_json(table.over_plain(line));
    batch["passes"] = line.counts.passes;
    batch["rows_per_pass"] = line.rows_per_pass();
    batch["shared"] = line.shared();
    json["batches"].push_back(std::move(batch));
  }
  return json;
}

/// Throws Error when the caches of so many sequences do not fit into memory.
void refuse_caches(Engine& engine, const BenchBatchOptions& options, std::uint64_t bytes_each, int sequences) {
  const int positions = options.prompt_length + options.max_new_tokens;
  const std::uint64_t budget = engine.cache_budget({&options.draft, 1}, SchedulerLimits{}.rows_per_pass, positions);
  const std::string what = fmt::format("{} sequences of {} positions", sequences, positions);
  if (const std::string why = shortage(what, bytes_each * static_cast<std::uint64_t>(sequences), budget);
      !why.empty()) {
    throw Error(why);
  }
}

Exit bench_batch(const BenchBatchOptions& options) {
  const BenchOptions& bench = options.bench;
  std::vector<std::string> sources = parse_draft_spec(options.draft).paths();
  sources.push_back(options.target);
  const auto json_file = bench_json_file(bench, sources);
  OpenedModel model({options.target, options.load_options, {.number = bench.threads}, bench.quiet});
  const std::vector<int> counts = ascending_with_one(options.sequences);
  Engine& engine = model.load({options.draft}, request_of_size(options.prompt_length, options.max_new_tokens),
                              options.draft_max.number);
  if (options.draft != "none") model.require_draft(options.draft);
  Batches batches(options, engine);
  refuse_caches(engine, options, batches.cache_bytes(), counts.back());

  const Roofline roofline(roofline_bytes);
  InterleavedTimer timer(roofline);
  BatchTable table{options,
                   engine.kernels(),
                   timer,
                   target_work(model.files().target(), model.load_options()),
                   memory_need(model.files(), {}, model.load_options()).cache_per_position,
                   {}};
  const std::optional<DraftCosts> costs = batches.costs_by_load();
  for (const int count : counts) {
    table.lines.push_back({count, "none"});
    if (!table.speculates()) continue;
    table.lines.push_back({count, options.draft});
    if (costs) table.lines.back().lengths.emplace(*costs);
  }
  for (BatchLine& line : table.lines) {
    const auto mean_end = std::make_shared<double>(0);
    const std::string name = fmt::format("{} sequences, draft {}", line.sequences, line.draft);
    line.index = timer.add(name, [&batches, &line, mean_end] {
      const Batches::Seconds seconds = batches.decode(line);
      *mean_end = seconds.mean_end;
      return seconds.all;
    });
    line.mean_end = timer.add("", [mean_end] { return *mean_end; });
  }
  with_workers([&] {
    batches.decode_alone();
    timer.run(bench);
  });
  if (shows_text(bench)) std::cout << text_of(table) << std::flush;
  if (json_file) json_file->write(dumped(json_of(table)));
  return Exit::pass;
}

}  // namespace

void add_bench_batch(Command& bench) {
  auto options = std::make_shared<BenchBatchOptions>();
  Command& command = bench.subcommand("batch", "requests decoded together, 1, 2, 4, ... at a time");
  command.group("Model");
  add_target_option(command, options->target);
  add_one_draft_option(command, options->draft);
  add_draft_max_option(command, options->draft_max);
  command.group("Measurement");
  command.option("--sequences", options->sequences, "sequences that are decoded together, like 1,8,16")
      .separator(',')
      .range(1, 4096)
      .show_default();
  command.option("--prompt-length", options->prompt_length, "tokens of each prompt").range(1, 1 << 20).show_default();
  command.option("--max-new-tokens", options->max_new_tokens, "tokens decoded after each prompt")
      .range(1, 1 << 20)
      .show_default();
  add_layout_options(command, options->load_options);
  add_bench_options(command, options->bench, 5);
  command.action([options] { return bench_batch(*options); });
}

}  // namespace draftproof
