// SPDX-License-Identifier: MIT
// The subcommands of `draftproof bench`, one file each, and what they share beside tools/bench/interleaved_timer.h.
#pragma once

#include <CLI/CLI.hpp>

#include "ref/models/model.h"
#include "tools/options.h"
#include "tools/bench/interleaved_timer.h"

namespace draftproof {

void add_bench_decode(CLI::App& bench, Exit& exit);
void add_bench_kernels(CLI::App& bench, Exit& exit);
void add_bench_prefill(CLI::App& bench, Exit& exit);
void add_bench_sampling(CLI::App& bench, Exit& exit);
void add_bench_speculate(CLI::App& bench, Exit& exit);

void add_bench_options(CLI::App& command, BenchOptions& options, int repeats);

/// Null when no result file is asked for.
std::unique_ptr<OutputFile> bench_json_file(const BenchOptions& options, const std::vector<std::string>& sources);

bool shows_text(const BenchOptions& options);

/// Tokens for a model to read; which ones does not matter.
std::vector<Token> bench_text(const Model& model, int length);

/// Passes over rows behind a context, logits of all rows; each is forgotten.
class ForgottenPasses {
 public:
  /// Reads the context. Error when the model cannot hold it and `rows_max` more.
  ForgottenPasses(Model& target, int context, int rows_max);
  void pass(int rows);

 private:
  Model& target_;
  int context_;
  std::vector<Token> text_;
  std::unique_ptr<Cache> cache_;
  Outputs outputs_;
};

}  // namespace draftproof
