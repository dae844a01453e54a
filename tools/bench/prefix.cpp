// SPDX-License-Identifier: MIT
// Time to the first token of a prompt that begins like a text that was read before: cold, without a prefix cache, and
// warm, when it takes the shared prefix from one. Both runs must give the same token.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "tools/bench/bench.h"
#include "tools/opened_model.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

struct BenchPrefixOptions {
  BenchOptions bench;
  LayoutOptions load_options;
  std::string target;
  std::string draft = "none";
  std::vector<int> lengths{500, 2000};
};

constexpr int own_tokens = 8;  // of the prompt, after the shared prefix
constexpr std::size_t prefix_bytes = std::size_t{8} << 30;

struct PrefixLine {
  int length;
  int cold;  // indices of the timer
  int warm;
};

/// Decodes the first token of a request. Returns it.
Token first_token(Engine& engine, const BenchPrefixOptions& options, const Request& request, PrefixCache* prefixes) {
  PhiloxSource random(0);
  const Engine::Opened opened = engine.open({.request = request, .draft = options.draft, .random = random});
  decode_alone(*opened.sequence, opened.cost, prefixes);
  return opened.sequence->trace().output.at(0);
}

std::string text_of(const BenchPrefixOptions& options, const Kernels& kernels, const InterleavedTimer& timer,
                    const std::vector<PrefixLine>& lines) {
  std::string text = fmt::format("{}, draft {}: {}, {} threads, {} repeats\n", options.target, options.draft,
                                 kernels.name, threads(), timer.repeats());
  text +=
      fmt::format("{:>13}  {:>8}  {:>8}  {:>7}  {}\n", "shared prefix", "cold, s", "warm, s", "ratio", "(min..max)");
  for (const PrefixLine& line : lines) {
    const Spread ratio = timer.ratio(line.cold, line.warm);
    text += fmt::format("{:>13}  {:>8.3f}  {:>8.3f}  {:>7.1f}  ({:.1f}..{:.1f})\n", line.length,
                        timer.seconds(line.cold).median, timer.seconds(line.warm).median, ratio.median, ratio.min,
                        ratio.max);
  }
  return text;
}

nlohmann::ordered_json json_of(const BenchPrefixOptions& options, const Kernels& kernels, const InterleavedTimer& timer,
                               const std::vector<PrefixLine>& lines) {
  nlohmann::ordered_json json = {
      {"command", "bench prefix"},     {"target", options.target},     {"draft", options.draft},
      {"kernels", kernels.name},       {"numerics", kernels.numerics}, {"quantize", options.load_options.quantize},
      {"kv", options.load_options.kv}, {"threads", threads()},         {"repeats", timer.repeats()}};
  for (const PrefixLine& line : lines) {
    json["prefixes"].push_back({{"length", line.length},
                                {"cold", spread_json(timer.seconds(line.cold))},
                                {"warm", spread_json(timer.seconds(line.warm))},
                                {"ratio", spread_json(timer.ratio(line.cold, line.warm))}});
  }
  return json;
}

Exit bench_prefix(const BenchPrefixOptions& options) {
  const BenchOptions& bench = options.bench;
  const auto json_file = bench_json_file(bench, {options.target});
  OpenedModel model({options.target, options.load_options, {.number = bench.threads}, bench.quiet});
  const int longest = *std::ranges::max_element(options.lengths) + own_tokens;
  Engine& engine = model.load({options.draft}, request_of_size(longest, 1));
  if (options.draft != "none") model.require_draft(options.draft);
  const Roofline roofline(roofline_bytes);
  InterleavedTimer timer(roofline);
  std::vector<PrefixLine> lines;
  for (const int length : options.lengths) {
    Request request;
    request.prompt = bench_text(engine.target(), length + own_tokens);
    request.max_new_tokens = 1;
    if (const std::string why = request_error(request, engine.target()); !why.empty()) throw Error(why);
    Request shared = request;  // another prompt with the same beginning
    shared.prompt.resize(static_cast<std::size_t>(length) + 1);
    const Token expected = first_token(engine, options, request, nullptr);
    const auto decode = [&engine, &options, request, expected](PrefixCache* known) {
      if (first_token(engine, options, request, known) != expected) {
        throw Error("the first token is another one with a prefix cache; run draftproof verify");
      }
    };
    const int cold = timer.add_whole(fmt::format("{} cold", length), [decode] { decode(nullptr); });
    const int warm = timer.add(fmt::format("{} warm", length), [&engine, &options, decode, shared] {
      PrefixCache known(prefix_bytes);  // holds the shared prefix and nothing of the prompt's own
      first_token(engine, options, shared, &known);
      return timed([&] { decode(&known); });
    });
    lines.push_back({length, cold, warm});
  }
  with_workers([&] { timer.run(bench); });
  if (shows_text(bench)) std::cout << text_of(options, engine.kernels(), timer, lines) << std::flush;
  if (json_file) json_file->write(dumped(json_of(options, engine.kernels(), timer, lines)));
  return Exit::pass;
}

}  // namespace

void add_bench_prefix(Command& bench) {
  auto options = std::make_shared<BenchPrefixOptions>();
  Command& command = bench.subcommand("prefix", "time to the first token, with and without a prefix cache");
  command.group("Model");
  add_target_option(command, options->target);
  add_one_draft_option(command, options->draft);
  command.group("Measurement");
  command.option("--prefix-lengths", options->lengths, "tokens of the shared prefix, like 500,2000")
      .separator(',')
      .range(1, 1 << 20)
      .show_default();
  add_layout_options(command, options->load_options);
  add_bench_options(command, options->bench, 5);
  command.action([options] { return bench_prefix(*options); });
}

}  // namespace draftproof
