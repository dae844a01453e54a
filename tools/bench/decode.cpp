// SPDX-License-Identifier: MIT
// The cost of a verification pass over M rows compared with one row, which is plain autoregressive decoding. A pass is
// a whole pass of the target, with the logits of every row; its weights are those that it was seen to multiply with.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "kernels/threads.h"
#include "ref/decoding/engine.h"
#include "ref/models/memory.h"
#include "ref/models/models.h"
#include "tools/bench/bench.h"
#include "tools/bench/kernel_timer.h"
#include "tools/bench/target_work.h"
#include "tools/opened_model.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

struct BenchDecodeOptions {
  BenchOptions bench;
  LayoutOptions load_options;
  std::string target;
  std::vector<int> rows{1, 2, 4, 8, 12, 16, 32};
  int context = 64;
};

struct DecodeLine {
  int rows;
  int index;
  Work work;    // its bytes are known once it was watched
  int watched;  // the same pass, timed by a KernelTimer
  int outside;  // the part of it outside of kernels
};

struct Table {
  const BenchDecodeOptions& options;
  const Kernels& kernels;
  const InterleavedTimer& timer;
  int layers;
  std::uint64_t memory_bytes;     // docs/memory.md
  std::vector<DecodeLine> lines;  // the first is of one row

  /// What the rows cost at the limits of the machine: of a mixture of experts they read more weights than one row.
  double cost_min(const DecodeLine& line) const {
    return timer.seconds_min(line.work) / timer.seconds_min(lines.front().work);
  }
};

std::string text_of(const Table& table) {
  const InterleavedTimer& timer = table.timer;
  std::string text = fmt::format("{}: {}, {} threads, context {}, {:.0f} MB of weights a pass, {} repeats\n{}",
                                 table.options.target, table.kernels.name, threads(), table.options.context,
                                 1e-6 * table.lines.front().work.bytes, timer.repeats(), timer.limits_text());
  text += fmt::format("{:>4}  {:>8}  {:<20}  {:>5}  {:<14}  {:>5}  {:>7}  {:>5} {:>5}  {:>6} {:>10}  {}\n", "rows",
                      "ms", "(min..max)", "cost", "(min..max)", "least", "rows/s", "GB/s", "", "GMAC/s", "of limit",
                      "outside kernels");
  for (const DecodeLine& line : table.lines) {
    const Spread time = timer.seconds(line.index);
    const Spread cost = timer.ratio(line.index, table.lines.front().index);
    text += fmt::format(
        "{:>4}  {:>8.3f}  {:<20}  {:>5.2f}  {:<14}  {:>5.2f}  {:>7.1f}  {:>5.1f} {:>4.0f}%  {:>6.1f} {:>9.0f}%  "
        "{:.1f}%, {:.1f} us a layer\n",
        line.rows, 1e3 * time.median, fmt::format("({:.3f}..{:.3f})", 1e3 * time.min, 1e3 * time.max), cost.median,
        fmt::format("({:.2f}..{:.2f})", cost.min, cost.max), table.cost_min(line), line.rows / time.median,
        1e-9 * line.work.bytes / time.median, 100 * line.work.bytes / time.median / timer.bytes_read(),
        1e-9 * line.work.multiplications() / time.median, 100 * timer.seconds_min(line.work) / time.median,
        100 * timer.ratio(line.outside, line.watched).median, 1e6 * timer.seconds(line.outside).median / table.layers);
  }
  return text;
}

nlohmann::ordered_json json_of(const Table& table) {
  const InterleavedTimer& timer = table.timer;
  nlohmann::ordered_json json = {{"command", "bench decode"},
                                 {"target", table.options.target},
                                 {"kernels", table.kernels.name},
                                 {"numerics", table.kernels.numerics},
                                 {"quantize", table.options.load_options.quantize},
                                 {"kv", table.options.load_options.kv},
                                 {"threads", threads()},
                                 {"context", table.options.context},
                                 {"bytes_of_weights", table.lines.front().work.bytes},
                                 {"memory_bytes", table.memory_bytes},
                                 {"repeats", timer.repeats()},
                                 {"limits", timer.limits_json()}};
  for (const DecodeLine& line : table.lines) {
    nlohmann::ordered_json row = {{"rows", line.rows}};
    row.update(timer.rates_json(line.index, line.work));
    row["cost"] = spread_json(timer.ratio(line.index, table.lines.front().index));
    row["cost_min"] = table.cost_min(line);
    row["bytes_of_weights"] = line.work.bytes;
    row["outside_kernels"] = {{"share", spread_json(timer.ratio(line.outside, line.watched))},
                              {"microseconds_per_layer", spread_json(timer.seconds(line.outside), 1e6 / table.layers)}};
    row["rows_per_second"] = line.rows / timer.seconds(line.index).median;
    json["rows"].push_back(std::move(row));
  }
  return json;
}

Exit bench_decode(const BenchDecodeOptions& options) {
  const BenchOptions& bench = options.bench;
  const auto json_file = bench_json_file(bench, {options.target});
  OpenedModel model({options.target, options.load_options, {.number = bench.threads}, bench.quiet});
  const std::vector<int> counts = ascending_with_one(options.rows);
  model.refuse_shortage({}, request_of_size(options.context, counts.back()));
  KernelTimer watch(model.load_options().kernels);
  const LoadOptions load_options = with_kernels(watch.table(), model.load_options());
  const auto target = load_model(model.files().target(), load_options);
  const TargetWork work = target_work(model.files().target(), load_options);
  const Roofline roofline(roofline_bytes);
  InterleavedTimer timer(roofline);
  const MemoryNeed need = memory_need(model.files(), {}, load_options);
  Table table{options, load_options.kernels, timer, target->layers(), need.total(options.context + counts.back()), {}};
  std::vector<std::shared_ptr<KernelTimer::Seen>> all_seen;
  with_workers([&] {
    RolledBackPasses passes(*target, options.context, counts.back());
    for (const int rows : counts) {
      const int index = timer.add_whole(fmt::format("{} rows", rows), [&passes, rows] { passes.pass(rows); });
      const auto seen = std::make_shared<KernelTimer::Seen>();
      const int watched = timer.add(fmt::format("{} rows, watched", rows), [&passes, &watch, seen, rows] {
        *seen = watch.watch([&] { passes.pass(rows); });
        return seen->seconds;
      });
      const int outside = timer.add("", [seen] { return seen->outside; });
      table.lines.push_back({rows, index, work.pass(rows), watched, outside});
      all_seen.push_back(seen);
    }
    timer.run(bench);
    for (std::size_t i = 0; i < all_seen.size(); ++i) table.lines[i].work.bytes = all_seen[i]->weight_bytes;
  });
  if (shows_text(bench)) std::cout << text_of(table) << std::flush;
  if (json_file) json_file->write(dumped(json_of(table)));
  return Exit::pass;
}

}  // namespace

void add_bench_decode(Command& bench) {
  auto options = std::make_shared<BenchDecodeOptions>();
  Command& command = bench.subcommand("decode", "verification passes over 1, 2, 4, ... rows after a context");
  command.group("Model");
  add_target_option(command, options->target);
  command.group("Measurement");
  command.option("--rows", options->rows, "rows of a pass, like 1,4,16").separator(',').range(1, 4096).show_default();
  command.option("--context", options->context, "positions before the rows").range(1, 1 << 20).show_default();
  add_layout_options(command, options->load_options);
  add_bench_options(command, options->bench, 11);
  command.action([options] { return bench_decode(*options); });
}

}  // namespace draftproof
