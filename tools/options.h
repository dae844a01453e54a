// SPDX-License-Identifier: MIT
// The flags that subcommands share, and what they become.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "ref/decoding/trace.h"
#include "ref/models/model.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// Exit statuses of the command.
enum class Exit : int { pass = 0, divergence = 1, undecided = 2, bad_input = 3 };

struct CommonOptions {
  std::string target;
  std::string prompt;
  std::string prompt_file;
  std::string prompt_tokens;
  int max_new_tokens = 64;
  Sampling sampling;
  std::uint64_t seed = 0;
  std::string rule = "matching";
  std::string kernels;
  int threads = 0;  // 0: as many as the machine has
  int draft_max = 0;
  std::string json_file;
  bool quiet = false;
};

void add_common_options(CLI::App& command, CommonOptions& options);

/// A target folder's tokenizer; null when it has none.
std::unique_ptr<Tokenizer> find_tokenizer(const std::string& target);

/// Prompt and stop tokens read and checked; Errors name flag or file.
Request make_request(const CommonOptions& options, const Tokenizer* tokenizer);

/// Writes a whole file or throws Error; "-" is standard output.
void write_file(const std::string& path, const std::string& text);

}  // namespace draftproof
