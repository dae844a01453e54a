// SPDX-License-Identifier: MIT
// The options that subcommands share, and what is made of their values.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ref/decoding/trace.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/whole_file.h"
#include "ref/models/weight_loader.h"
#include "ref/text/tokenizer.h"
#include "tools/command_line.h"

namespace draftproof {

/// How a model is loaded: the kernel table its weights are packed for, and the formats of weights and KV cache.
struct LayoutOptions {
  std::string kernels;  // empty: the best table of this CPU
  std::string quantize = "none";
  std::string kv = "bf16";
  bool long_context = false;
  std::vector<std::string> lora = {};  // adapters, each PATH or PATH=SCALE
};

inline constexpr int threads_max = 256;

struct CommonOptions {
  std::string target;
  std::string prompt;
  std::string prompt_file;  // "-": standard input
  std::string prompt_tokens;
  bool parse_special = false;
  int max_new_tokens = 64;
  std::vector<int> context_shift;         // context, keep and, unless half of the others, discard; empty: none
  Sampling sampling;                      // in the default order
  std::vector<std::string> samplers;      // the names of those that apply, in order; empty: all, in the default one
  std::vector<std::string> dry_breakers;  // empty: the default ones; none alone: none
  std::uint64_t seed = 0;
  std::string rule = "matching";
  std::string verification = "batched";
  LayoutOptions load_options;
  NumberOrAuto threads = {.max = threads_max};            // 0: all of the machine's
  NumberOrAuto draft_max = {.max = draft_max_field.max};  // 0: the draft's own default
  std::string json_file;
  bool quiet = false;
};

/// Whether TARGET may be a pair (pair.h).
enum class TakesPair { no, yes };

/// The target model, the prompt, sampling, the acceptance rule, how the model is loaded, --json and --quiet.
void add_common_options(Command& command, CommonOptions& options, TakesPair takes_pair = TakesPair::no);

/// Those of them that say how to decode, without prompt and results: sampling, the acceptance rule, how the model is
/// loaded.
void add_decoding_options(Command& command, CommonOptions& options);
/// --max-new-tokens.
void add_max_new_tokens_option(Command& command, int& max_new_tokens);

/// TARGET, which can be given as -m or --model, too.
void add_target_option(Command& command, std::string& target, TakesPair takes_pair = TakesPair::no);

/// --lora, --kernels, --quantize, --kv and --long-context, of every command that loads a model.
void add_layout_options(Command& command, LayoutOptions& options);

void add_kernels_option(Command& command, std::string& kernels);
/// --threads; with NumberOrAuto, of a command that decodes with a target.
void add_threads_option(Command& command, int& threads);
void add_threads_option(Command& command, NumberOrAuto& threads);

/// --draft of a command that decodes with one draft.
void add_one_draft_option(Command& command, std::string& draft);
/// --draft of a command that takes several. `also`: what else it takes, for the help.
Option& add_drafts_option(Command& command, std::vector<std::string>& drafts, const std::string& also = "");
/// --draft-max.
void add_draft_max_option(Command& command, NumberOrAuto& draft_max);
/// --context-shift.
void add_context_shift_option(Command& command, std::vector<int>& context_shift);
/// --verify: how proposals are verified.
void add_verification_option(Command& command, std::string& verification);

/// --json and --quiet.
void add_result_options(Command& command, std::string& json_file, bool& quiet);

/// --seed, any number of 64 bits.
void add_seed_option(Command& command, std::uint64_t& seed, const std::string& help);

/// Returns --threads, or the number of threads the machine has. Throws Error for auto: for commands that compare runs
/// or measure.
int threads_to_use(const CommonOptions& options);

/// The name of a field as people read it and as an option has it: "top-k" for "top_k".
std::string with_dashes(std::string name);

/// Throws Error for a name that does not exist; the message lists the names.
LoadOptions layout_of(const LayoutOptions& options);

/// Adds the adapters of --lora.
Checkpoint with_adapters(Checkpoint target, const LayoutOptions& options);
/// The paths of --lora.
std::vector<std::string> paths_of_adapters(const LayoutOptions& options);

/// Returns the text of a file of at most 16 MiB; "-" is standard input. Throws Error for a longer or an empty one.
std::string read_text_file(const std::string& path);

/// True when the prompt was not given as an option, and standard input is a pipe or a file, which is then the prompt.
bool prompt_is_piped(const CommonOptions& options);

/// Returns the sampling with its order. Throws Error naming --samplers.
Sampling sampling_of(const CommonOptions& options);
/// Sets the tokens that break repetitions, where DRY is on: none without a tokenizer. Throws Error naming the option.
void set_dry_breakers(Sampling& sampling, const CommonOptions& options, const Tokenizer* tokenizer);

/// Reads and checks the prompt and the stop tokens. Throws Error naming option or file. `tokenizer`:
/// OpenedModel::tokenizer_to_read.
Request make_request(const CommonOptions& options, const Checkpoint& files, const Tokenizer* tokenizer);

/// Returns --draft-max, 0 when it was left out. Throws Error when it is "auto": for proofs, which have to be
/// repeatable.
int fixed_draft_max(const CommonOptions& options);

/// --draft-max and --verify.
Execution make_execution(const CommonOptions& options);
/// The same, to write a text as fast as can be: where --draft-max was left out, a tuner chooses, if it can for this
/// draft and if that cannot change the text: greedily, and by matching.
Execution execution_to_write(const CommonOptions& options, const std::string& draft);

/// True for "-" and for other names of standard output: /dev/stdout, or the file it was redirected to.
bool is_standard_output(const std::string& path);

/// Throws Error when `path` exists and is not a regular file: a folder, a pipe or a device cannot be replaced; and when
/// it is one of the files and folders that the command reads, or lies inside one.
void require_replaceable(const std::filesystem::path& path, const std::vector<std::string>& protected_paths);
/// The same of a GGUF to write, whose name also has to end in .gguf.
void require_replaceable_gguf(const std::filesystem::path& path, const std::vector<std::string>& protected_paths);

/// A result file. It is opened before the work, so that a bad path fails at once, and takes its place when it is
/// complete (ref/formats/whole_file.h). Standard output, pipes and devices are written to directly.
class OutputFile {
 public:
  /// `protected_paths`: the files and folders that the command reads. Throws Error when `path` is one of them or lies
  /// inside one, when it cannot be written, and when it is a pipe that nobody reads.
  OutputFile(const std::string& path, const std::vector<std::string>& protected_paths);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes the whole file; called once. Throws Error when that fails.
  void write(const std::string& text);
  /// Writes the file piece by piece; finish() renames it into place.
  void append(std::string_view text);
  void flush();  // what was appended survives a kill
  void finish();

 private:
  void write_to(int file);  // a descriptor; -1 throws the Error of errno
  [[noreturn]] void fail() const;

  std::string path_;
  std::optional<PartialFile> partial_;  // none when `path_` is written directly
  std::FILE* stream_ = stdout;
};

}  // namespace draftproof
