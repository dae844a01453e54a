// SPDX-License-Identifier: MIT
// The speed of prefill: the decoder itself, which is asked for no new token.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tools/bench/bench.h"
#include "tools/bench/target_work.h"
#include "tools/opened_model.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

struct BenchPrefillOptions {
  BenchOptions bench;
  LayoutOptions load_options;
  std::string target;
  std::vector<int> lengths{128, 512};
};

struct PrefillLine {
  int length;
  int index;
  Work work;
};

/// Returns the work of a prefill. Every chunk of the prompt reads all weights of the layers; the LM head is not needed.
Work prefill_work(const TargetWork& work, int length) {
  Work prefill = work.pass(length, false);
  prefill.bytes *= (length + Draft::max_chunk - 1) / Draft::max_chunk;
  return prefill;
}

std::string text_of(const BenchPrefillOptions& options, const Kernels& kernels, const InterleavedTimer& timer,
                    const std::vector<PrefillLine>& lines) {
  std::string text = fmt::format("{}: {}, {} threads, {} repeats\n{}", options.target, kernels.name, threads(),
                                 timer.repeats(), timer.limits_text());
  text += fmt::format("{:>6}  {:>8}  {:<18}  {:>8}  {:>6} {:>9}\n", "prompt", "s", "(min..max)", "tokens/s", "GMAC/s",
                      "of limit");
  for (const PrefillLine& line : lines) {
    const Spread time = timer.seconds(line.index);
    text +=
        fmt::format("{:>6}  {:>8.3f}  {:<18}  {:>8.1f}  {:>6.1f} {:>8.0f}%\n", line.length, time.median,
                    fmt::format("({:.3f}..{:.3f})", time.min, time.max), line.length / time.median,
                    1e-9 * line.work.multiplications() / time.median, 100 * timer.seconds_min(line.work) / time.median);
  }
  return text;
}

nlohmann::ordered_json json_of(const BenchPrefillOptions& options, const Kernels& kernels,
                               const InterleavedTimer& timer, const std::vector<PrefillLine>& lines) {
  nlohmann::ordered_json json = {{"command", "bench prefill"},
                                 {"target", options.target},
                                 {"kernels", kernels.name},
                                 {"numerics", kernels.numerics},
                                 {"quantize", options.load_options.quantize},
                                 {"kv", options.load_options.kv},
                                 {"threads", threads()},
                                 {"repeats", timer.repeats()},
                                 {"limits", timer.limits_json()}};
  for (const PrefillLine& line : lines) {
    nlohmann::ordered_json prompt = {{"length", line.length}};
    prompt.update(timer.rates_json(line.index, line.work));
    prompt["tokens_per_second"] = line.length / timer.seconds(line.index).median;
    json["prompts"].push_back(std::move(prompt));
  }
  return json;
}

Exit bench_prefill(const BenchPrefillOptions& options) {
  const BenchOptions& bench = options.bench;
  const auto json_file = bench_json_file(bench, {options.target});
  OpenedModel model({options.target, options.load_options, {.number = bench.threads}, bench.quiet});
  const int longest = *std::ranges::max_element(options.lengths) + 1;  // the first decoding step reads the last token
  Engine& engine = model.load({}, request_of_size(longest, 0));
  const TargetWork work = target_work(model.files().target(), model.load_options());
  const Roofline roofline(roofline_bytes);
  InterleavedTimer timer(roofline);
  std::vector<PrefillLine> lines;
  for (const int length : options.lengths) {
    Request request;
    request.prompt = bench_text(engine.target(), length + 1);
    if (const std::string why = request_error(request, engine.target()); !why.empty()) throw Error(why);
    const int index = timer.add(fmt::format("prompt of {}", length), [&engine, request] {
      PhiloxSource random(0);
      return engine.decode({.request = request, .random = random}).statistics.prompt_seconds;
    });
    lines.push_back({length, index, prefill_work(work, length)});
  }
  with_workers([&] { timer.run(bench); });
  if (shows_text(bench)) std::cout << text_of(options, engine.kernels(), timer, lines) << std::flush;
  if (json_file) json_file->write(dumped(json_of(options, engine.kernels(), timer, lines)));
  return Exit::pass;
}

}  // namespace

void add_bench_prefill(Command& bench) {
  auto options = std::make_shared<BenchPrefillOptions>();
  Command& command = bench.subcommand("prefill", "prefill of prompts");
  command.group("Model");
  add_target_option(command, options->target);
  command.group("Measurement");
  command.option("--prompt-lengths", options->lengths, "tokens of each prompt, like 128,512")
      .separator(',')
      .range(1, 1 << 20)
      .show_default();
  add_layout_options(command, options->load_options);
  add_bench_options(command, options->bench, 5);
  command.action([options] { return bench_prefill(*options); });
}

}  // namespace draftproof
