// SPDX-License-Identifier: MIT
// How fast prompts are read: the decoder itself, asked to write nothing.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tools/bench.h"
#include "tools/progress.h"
#include "tools/statistics.h"
#include "tools/target_work.h"

namespace draftproof {
namespace {

struct BenchPrefillOptions {
  BenchOptions bench;
  LayoutOptions layout;
  std::string target;
  std::vector<int> lengths{128, 512};
};

struct Line {
  int length;
  int thing;
  Work work;
};

/// Every piece of a prompt reads all weights of the layers; the head is not needed.
Work reading_work(const TargetWork& work, int length) {
  Work reading = work.pass(length, false);
  reading.bytes *= (length + Draft::run_max - 1) / Draft::run_max;
  return reading;
}

std::string text_of(const BenchPrefillOptions& options, const Kernels& kernels, const Turns& turns,
                    const std::vector<Line>& lines) {
  std::string text = fmt::format("{}: {}, {} threads, {} turns\n{}", options.target, kernels.name, threads(),
                                 turns.turns(), turns.limits_text());
  text += fmt::format("{:>6}  {:>8}  {:<18}  {:>8}  {:>6} {:>9}\n", "prompt", "s", "(min..max)", "tokens/s", "GMAC/s",
                      "of limit");
  for (const Line& line : lines) {
    const Spread time = turns.seconds(line.thing);
    text += fmt::format("{:>6}  {:>8.3f}  {:<18}  {:>8.1f}  {:>6.1f} {:>8.0f}%\n", line.length, time.median,
                        fmt::format("({:.3f}..{:.3f})", time.least, time.most), line.length / time.median,
                        1e-9 * line.work.multiplications() / time.median,
                        100 * turns.least_seconds(line.work) / time.median);
  }
  return text;
}

nlohmann::ordered_json json_of(const BenchPrefillOptions& options, const Kernels& kernels, const Turns& turns,
                               const std::vector<Line>& lines) {
  nlohmann::ordered_json json = {{"command", "bench prefill"},          {"target", options.target},
                                 {"kernels", kernels.name},             {"numerics", kernels.numerics},
                                 {"quantize", options.layout.quantise}, {"kv", options.layout.kv},
                                 {"threads", threads()},                {"turns", turns.turns()},
                                 {"limits", turns.limits_json()}};
  for (const Line& line : lines) {
    nlohmann::ordered_json prompt = {{"length", line.length}};
    prompt.update(turns.rates_json(line.thing, line.work));
    prompt["tokens_per_second"] = line.length / turns.seconds(line.thing).median;
    json["prompts"].push_back(std::move(prompt));
  }
  return json;
}

Exit bench_prefill(const BenchPrefillOptions& options) {
  const BenchOptions& bench = options.bench;
  if (bench.threads > 0) set_threads(bench.threads);
  Progress progress(bench.quiet);
  Layout layout = layout_of(options.layout);
  layout.observer = progress.observer();
  const Kernels& kernels = layout.kernels;
  const auto json_file = bench_json_file(bench, {options.target});
  Engine engine(options.target, layout);
  const TargetWork work = target_work(options.target, layout);
  const Roofline roofline(roofline_bytes);
  Turns turns(roofline);
  std::vector<Line> lines;
  for (const int length : options.lengths) {
    Request request;
    request.prompt = bench_text(engine.target(), length + 1);  // the last token is read by the first step
    if (const std::string why = misfit(request, engine.target()); !why.empty()) throw Error(why);
    const int thing = turns.add(fmt::format("prompt of {}", length), [&engine, request] {
      SeededChance chance(0);
      return engine.decode(request, "none", rule_by_name("matching"), chance).statistics.prompt_seconds;
    });
    lines.push_back({length, thing, reading_work(work, length)});
  }
  with_workers([&] { turns.run(bench); });
  if (shows_text(bench)) std::cout << text_of(options, kernels, turns, lines) << std::flush;
  if (json_file) json_file->write(dumped(json_of(options, kernels, turns, lines)));
  return Exit::pass;
}

}  // namespace

void add_bench_prefill(CLI::App& bench, Exit& exit) {
  auto options = std::make_shared<BenchPrefillOptions>();
  CLI::App* const command = bench.add_subcommand("prefill", "reading prompts");
  command->add_option("target", options->target, "folder or .gguf of the target model")->required();
  command->add_option("--prompt-lengths", options->lengths, "tokens of each prompt, like 128,512")
      ->delimiter(',')
      ->check(within(1, 1 << 20))
      ->capture_default_str();
  add_layout_options(*command, options->layout);
  add_bench_options(*command, options->bench, 5);
  command->callback([options, &exit] { exit = bench_prefill(*options); });
}

}  // namespace draftproof
