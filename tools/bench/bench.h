// SPDX-License-Identifier: MIT
// The subcommands of `draftproof bench`, one file each, and what they share besides tools/bench/interleaved_timer.h.
#pragma once

#include "ref/models/model.h"
#include "tools/bench/interleaved_timer.h"
#include "tools/options.h"

namespace draftproof {

void add_bench_batch(Command& bench);
void add_bench_decode(Command& bench);
void add_bench_drafters(Command& bench);
void add_bench_kernels(Command& bench);
void add_bench_prefill(Command& bench);
void add_bench_prefix(Command& bench);
void add_bench_quantization(Command& bench);
void add_bench_sampling(Command& bench);
void add_bench_tokenizer(Command& bench);

/// --threads, --repeats, --json and --quiet. `repeats`: the default.
void add_bench_options(Command& command, BenchOptions& options, int repeats);
void add_repeats_option(Command& command, int& repeats);

/// Returns the file of --json; null when none is asked for.
std::unique_ptr<OutputFile> bench_json_file(const BenchOptions& options, const std::vector<std::string>& sources);

bool shows_text(const BenchOptions& options);

/// Returns the counts in ascending order without duplicates, 1 included.
std::vector<int> ascending_with_one(std::vector<int> counts);

/// Returns tokens for a model to read. Speed does not depend on which ones.
std::vector<Token> bench_text(const Model& model, int length);

/// Passes over rows after a context that compute the logits of all rows and are rolled back.
class RolledBackPasses {
 public:
  /// Prefills the context. Throws Error when the model has no room for it and `rows_max` more positions.
  RolledBackPasses(Model& target, int context, int rows_max);
  void pass(int rows);

 private:
  Model& target_;
  int context_;
  std::vector<Token> text_;
  std::unique_ptr<Cache> cache_;
  Outputs outputs_;
};

}  // namespace draftproof
