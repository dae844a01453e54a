// SPDX-License-Identifier: MIT
// The flags that subcommands share, and what they become.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ref/decoding/trace.h"
#include "ref/models/weight_loader.h"
#include "ref/models/model.h"
#include "ref/text/tokenizer.h"

namespace draftproof {

/// Exit statuses of the command.
enum class Exit : int { pass = 0, divergence = 1, undecided = 2, bad_input = 3 };

/// For which table weights are laid out, and in which formats.
struct LayoutOptions {
  std::string kernels;
  std::string quantize = "none";
  std::string kv = "f32";
};

struct CommonOptions {
  std::string target;
  std::string prompt;
  std::string prompt_file;
  std::string prompt_tokens;
  int max_new_tokens = 64;
  Sampling sampling;
  std::uint64_t seed = 0;
  std::string rule = "matching";
  LayoutOptions load_options;
  int threads = 0;  // 0: as many as the machine has
  int draft_max = 0;
  std::string json_file;
  bool quiet = false;
};

/// What a flag that takes a number accepts: a decimal one in [least, most]. CLI::Range reads octal, lets NaN pass, and
/// takes what is too large for the largest there is. Number: int, std::int64_t, std::uint64_t, double.
template <class Number>
CLI::Validator within(Number least, Number most);

void add_common_options(CLI::App& command, CommonOptions& options);

/// --kernels, --quantize and --kv, of every command that loads a model.
void add_layout_options(CLI::App& command, LayoutOptions& options);

void add_kernels_option(CLI::App& command, std::string& kernels);
void add_threads_option(CLI::App& command, int& threads);

/// Threads as asked for, or as many as the machine has.
int threads_of(const CommonOptions& options);

/// Errors name what there is.
LoadOptions layout_of(const LayoutOptions& options);

bool has_tokenizer(const std::filesystem::path& target);  // folder or .gguf file

/// What the prompt is encoded with: null when it is given as tokens, or the target has none. Error when it cannot be
/// built.
std::unique_ptr<Tokenizer> tokenizer_to_read(const CommonOptions& options);

/// What tokens are shown with. A target whose tokenizer cannot be built is one without; standard error says why, unless
/// --quiet is given.
std::unique_ptr<Tokenizer> tokenizer_to_write(const CommonOptions& options);

/// Prompt and stop tokens read and checked; Errors name flag or file. `tokenizer`: tokenizer_to_read.
Request make_request(const CommonOptions& options, const Tokenizer* tokenizer);

/// "-", or another name for the same: /dev/stdout, or the file that it was redirected to.
bool is_standard_output(const std::string& path);

/// Error when what stands at `path` is none that a new file may take the place of: a folder, a pipe, a device.
void require_replaceable(const std::filesystem::path& path);

/// A result file, opened before the work so that a bad path costs nothing, and put in its place whole when written: a
/// full disk or an interruption leaves no half result, and nothing is replaced before there is something to replace it.
/// What is standard output, or no regular file (a pipe, a device), is written to as it is.
class OutputFile {
 public:
  /// `protected_paths`: what the command reads; Error when `path` is one of them or lies inside one, cannot be written,
  /// or is a pipe that nobody reads.
  OutputFile(const std::string& path, const std::vector<std::string>& protected_paths);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Once. Error when it cannot be written whole.
  void write(const std::string& text);
  /// The same, piece by piece; finish() puts it in its place.
  void append(std::string_view text);
  void flush();  // what was appended outlives a kill
  void finish();

 private:
  void write_to(int file);  // a descriptor; -1: as errno says
  [[noreturn]] void fail() const;

  std::string path_;
  std::filesystem::path place_;    // where the result goes, links followed
  std::filesystem::path partial_;  // beside it; empty when written in place
  std::FILE* stream_ = stdout;
};

}  // namespace draftproof
