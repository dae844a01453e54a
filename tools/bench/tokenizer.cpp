// SPDX-License-Identifier: MIT
// The speed of a tokenizer on a text: encoding it, and decoding its tokens, on one thread.
#include <fmt/format.h>

#include <iostream>

#include "kernels/threads.h"
#include "ref/text/tokenizer.h"
#include "tools/bench/bench.h"
#include "tools/statistics.h"

namespace draftproof {
namespace {

struct BenchTokenizerOptions {
  BenchOptions bench;
  std::string tokenizer;
  std::string text_file;
};

struct TokenizerCases {
  int encode;
  int decode;
};

double megabytes_per_second(const std::string& text, const Spread& seconds) {
  return static_cast<double>(text.size()) * 1e-6 / seconds.median;
}

std::string text_of(const std::string& text, std::size_t tokens, const InterleavedTimer& timer, TokenizerCases cases) {
  std::string lines = fmt::format("{} bytes, {} tokens, {} repeats\n", text.size(), tokens, timer.repeats());
  for (const auto& [name, index] : {std::pair{"encode", cases.encode}, {"decode", cases.decode}}) {
    const Spread seconds = timer.seconds(index);
    lines += fmt::format("{} {:>7.2f} MB/s   {:.2f} ms ({:.2f}..{:.2f})\n", name, megabytes_per_second(text, seconds),
                         1e3 * seconds.median, 1e3 * seconds.min, 1e3 * seconds.max);
  }
  return lines;
}

nlohmann::ordered_json json_of(const BenchTokenizerOptions& options, const std::string& text, std::size_t tokens,
                               const InterleavedTimer& timer, TokenizerCases cases) {
  nlohmann::ordered_json json = {{"command", "bench tokenizer"},
                                 {"tokenizer", options.tokenizer},
                                 {"text", options.text_file},
                                 {"bytes", text.size()},
                                 {"tokens", tokens},
                                 {"repeats", timer.repeats()},
                                 {"limits", timer.limits_json()}};
  for (const auto& [name, index] : {std::pair{"encode", cases.encode}, {"decode", cases.decode}}) {
    json[name] = {{"milliseconds", spread_json(timer.seconds(index), 1e3)},
                  {"megabytes_per_second", megabytes_per_second(text, timer.seconds(index))}};
  }
  return json;
}

Exit bench_tokenizer(const BenchTokenizerOptions& options) {
  const BenchOptions& bench = options.bench;
  if (bench.threads > 0) set_threads(bench.threads);
  const auto json_file = bench_json_file(bench, {options.tokenizer, options.text_file});
  const Tokenizer tokenizer = Tokenizer::load(options.tokenizer);
  const std::string text = read_text_file(options.text_file);
  const std::vector<Token> tokens = tokenizer.encode(text, false);
  const Roofline roofline(roofline_bytes);
  InterleavedTimer timer(roofline);
  const TokenizerCases cases{timer.add_whole("encode", [&] { tokenizer.encode(text, false); }),
                             timer.add_whole("decode", [&] { tokenizer.decode(tokens, false); })};
  with_workers([&] { timer.run(bench); });
  if (shows_text(bench)) std::cout << text_of(text, tokens.size(), timer, cases) << std::flush;
  if (json_file) json_file->write(dumped(json_of(options, text, tokens.size(), timer, cases)));
  return Exit::pass;
}

}  // namespace

void add_bench_tokenizer(Command& bench) {
  auto options = std::make_shared<BenchTokenizerOptions>();
  Command& command = bench.subcommand("tokenizer", "encoding a text and decoding its tokens, on one thread");
  command.group("Measurement");
  command
      .option("tokenizer", options->tokenizer, "a model's folder, a tokenizer.json, a tokenizer.model or a .gguf file")
      .required();
  command.option("--text FILE", options->text_file, "file with the text; - is standard input").required();
  add_bench_options(command, options->bench, 10);
  command.action([options] { return bench_tokenizer(*options); });
}

}  // namespace draftproof
