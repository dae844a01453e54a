// SPDX-License-Identifier: MIT
#include "tools/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "ref/base/error.h"
#include "ref/drafts/draft.h"
#include "ref/models/read_text.h"
#include "tools/commands.h"

namespace draftproof {

void add_repeats_option(Command& command, int& repeats) {
  command.group("Measurement");
  command.option("--repeats", repeats, "how often everything is timed").range(1, 100'000).show_default();
}

void add_bench_options(Command& command, BenchOptions& options, int repeats) {
  options.repeats = repeats;
  add_threads_option(command, options.threads);
  add_repeats_option(command, options.repeats);
  add_result_options(command, options.json_file, options.quiet);
}

std::unique_ptr<OutputFile> bench_json_file(const BenchOptions& options, const std::vector<std::string>& sources) {
  if (options.json_file.empty()) return nullptr;
  return std::make_unique<OutputFile>(options.json_file, sources);
}

bool shows_text(const BenchOptions& options) { return !options.quiet && !is_standard_output(options.json_file); }

std::vector<int> ascending_with_one(std::vector<int> counts) {
  counts.push_back(1);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<Token> bench_text(const Model& model, int length) {
  std::vector<Token> text;
  for (int i = 0; i < length; ++i) text.push_back((i * 37 + 1) % model.vocabulary());
  return text;
}

RolledBackPasses::RolledBackPasses(Model& target, int context, int rows_max) : target_(target), context_(context) {
  if (context > target.context() - rows_max) {
    throw Error(fmt::format("a context of {} and {} rows exceed the {} positions of the model", context, rows_max,
                            target.context()));
  }
  text_ = bench_text(target, context + rows_max);
  cache_ = target.new_cache(context + rows_max, std::max(Draft::max_chunk, rows_max));
  read_text(target, *cache_, std::span(text_).first(static_cast<std::size_t>(context)), Draft::max_chunk);
}

void RolledBackPasses::pass(int rows) {
  const auto tokens = std::span(text_).subspan(static_cast<std::size_t>(context_), static_cast<std::size_t>(rows));
  const Transaction rolled_back = cache_->begin(rows);
  forward_alone(target_, {.cache = cache_.get(), .tokens = tokens}, outputs_);
}

void add_bench(Command& app) {
  Command& command = app.subcommand("bench", "measure speed beside the limits of this machine");
  add_bench_batch(command);
  add_bench_decode(command);
  add_bench_drafters(command);
  add_bench_kernels(command);
  add_bench_prefill(command);
  add_bench_prefix(command);
  add_bench_quantization(command);
  add_bench_sampling(command);
  add_bench_tokenizer(command);
}

}  // namespace draftproof
