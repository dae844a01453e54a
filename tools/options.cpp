// SPDX-License-Identifier: MIT
#include "tools/options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <limits>
#include <sstream>
#include <system_error>
#include <type_traits>
#include <utility>

#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "ref/acceptance/rule.h"
#include "ref/acceptance/sampling_params.h"
#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/decoding/engine.h"
#include "ref/drafts/drafts.h"
#include "ref/formats/gguf.h"
#include "ref/formats/printable.h"
#include "ref/models/models.h"
#include "ref/text/breakers.h"

namespace draftproof {
namespace {

constexpr std::size_t text_bytes_max = std::size_t{1} << 24;
constexpr int int_max = std::numeric_limits<int>::max();

std::vector<Token> parse_tokens(const std::string& list) {
  std::vector<Token> tokens;
  std::stringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    const char* first = item.data();
    const char* const last = item.data() + item.size();
    while (first != last && *first == ' ') ++first;
    Token token = -1;
    const auto [end, failure] = std::from_chars(first, last, token);
    if (failure != std::errc{} || end != last || token < 0) {
      throw Error("--prompt-tokens: " + in_quotes(item) + " is not a token id; give ids like 12,7,99");
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::string read_prompt(const std::string& path) {
  try {
    return read_text_file(path);
  } catch (const Error& wrong) {
    throw Error("--prompt-file: " + std::string(wrong.what()));
  }
}

}  // namespace

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string read_text_file(const std::string& path) {
  Incoming bytes(path == "-" ? "/dev/stdin" : path);
  std::string text(text_bytes_max + 1, '\0');
  text.resize(static_cast<std::size_t>(bytes.sgetn(text.data(), static_cast<std::streamsize>(text.size()))));
  if (text.empty()) throw Error(path + ": is empty");
  if (text.size() > text_bytes_max) throw Error(path + ": is longer than 16 MiB");
  return text;
}

void add_target_option(Command& command, std::string& target, TakesPair takes_pair) {
  const char* const help = takes_pair == TakesPair::no
                               ? "the target model: a folder, or a .gguf file"
                               : "the target model: a folder, a .gguf file, or a .json file that names it and a draft "
                                 "(a pair)";
  command.option("target,-m,--model MODEL", target, help).required();
}

namespace {

void add_prompt_options(Command& command, CommonOptions& options) {
  command.group("Prompt");
  Option& text = command.option("--prompt,-p", options.prompt, "text to continue");
  Option& file = command.option("--prompt-file,-f,--file FILE", options.prompt_file,
                                "file with the text to continue, without one newline at its end; - is standard input, "
                                "where every command but verify also reads a prompt that is piped to it");
  Option& ids = command.option("--prompt-tokens IDS", options.prompt_tokens, "token ids to continue: 12,7,99");
  text.excludes(file).excludes(ids);
  file.excludes(ids);
  command.flag("--parse-special", options.parse_special,
               "the text of a special token in the prompt becomes that token instead of staying text");
  add_max_new_tokens_option(command, options.max_new_tokens);
}

void add_sampling_options(Command& command, CommonOptions& options) {
  command.group("Sampling");
  for_each_sampling_field([&]<class T>(const SamplingField<T>& field) {
    using Bound = std::conditional_t<std::is_same_v<T, float>, double, T>;
    const std::string alias = std::string_view(field.name) == "temperature" ? ",--temp" : "";
    Option& option = command.option("--" + with_dashes(field.name) + alias + " " + field.placeholder,
                                    options.sampling.*field.member, field.help);
    option.range<Bound>(field.min, field.max).show_default();
    if (field.not_zero) option.not_zero();
  });
  command
      .option("--samplers NAMES", options.samplers,
              "the samplers that apply, in order, like top_k;top_p;temperature; or the name of an order: transformers, "
              "the default, where cuts see the probabilities after the temperature, or llama.cpp, where they see those "
              "before it")
      .separator(';');
  command
      .option("--dry-sequence-breaker TEXT", options.dry_breakers,
              "no repetition that DRY sees goes on over a token with this text; may be given several times; none is "
              "none, left out it is a line break, :, \" and *")
      .one_each_time();
  add_seed_option(command, options.seed, "seed of every random draw");
}

}  // namespace

void add_common_options(Command& command, CommonOptions& options, TakesPair takes_pair) {
  command.group("Model");
  add_target_option(command, options.target, takes_pair);
  add_prompt_options(command, options);
  add_decoding_options(command, options);
  add_result_options(command, options.json_file, options.quiet);
}

void add_max_new_tokens_option(Command& command, int& max_new_tokens) {
  command.option("--max-new-tokens,-n", max_new_tokens, "tokens to generate, at most").range(0, int_max).show_default();
}

void add_decoding_options(Command& command, CommonOptions& options) {
  add_sampling_options(command, options);
  command.group("Speculative decoding");
  std::vector<std::string> rules;
  for (const Rule* const* rule = all_rules(); *rule != nullptr; ++rule) rules.emplace_back((*rule)->name);
  command.option("--rule", options.rule, "acceptance rule").choices(rules).show_default();
  add_draft_max_option(command, options.draft_max);
  add_layout_options(command, options.load_options);
  add_threads_option(command, options.threads);
}

void add_draft_max_option(Command& command, NumberOrAuto& draft_max) {
  static_assert(NumberOrAuto::automatic == Execution::draft_max_auto);
  command.option("--draft-max", draft_max,
                 "draft tokens per round, at most; auto: as many as pay, by the measured costs of passes and by what "
                 "was accepted; left out: as the draft prefers, or by generate and chat, where the text is the same "
                 "and no trace is written, auto");
}

void add_context_shift_option(Command& command, std::vector<int>& context_shift) {
  command.group("Prompt");
  command
      .option("--context-shift CONTEXT,KEEP,DISCARD", context_shift,
              "lossy: when CONTEXT positions are full, drop DISCARD of them (left out: half) behind the first KEEP")
      .separator(',')
      .range(0, int_max)
      .count(2, 3);
}

void add_verification_option(Command& command, std::string& verification) {
  command.group("Speculative decoding");
  command
      .option("--verify", verification,
              "all draft tokens in one pass of the target; or one pass for each; or in one pass, and the accepted ones "
              "once more where one was rejected")
      .choices(names_of_verifications())
      .show_default();
}

void add_one_draft_option(Command& command, std::string& draft) {
  command.group("Speculative decoding");
  command.option("--draft,--spec-type DRAFT", draft, "the draft: " + names_of_drafts()).show_default();
}

Option& add_drafts_option(Command& command, std::vector<std::string>& drafts, const std::string& also) {
  command.group("Speculative decoding");
  return command.option("--draft,--spec-type DRAFT", drafts, "drafts, one or more: " + names_of_drafts() + also)
      .count(1, 16);
}

void add_layout_options(Command& command, LayoutOptions& options) {
  add_kernels_option(command, options.kernels);
  command
      .option("--lora PATH", options.lora,
              "LoRA adapter to add to the target: a folder of PEFT or a .gguf; PATH=SCALE adds so much of it; may be "
              "given several times")
      .one_each_time();
  command.option("--quantize", options.quantize, "convert float weights while they are loaded")
      .choices({"none", "f32", "q8", "q4"})
      .show_default();
  command.option("--kv", options.kv, "format of the KV cache").choices({"f32", "bf16", "q8"}).show_default();
  command.flag("--long-context", options.long_context,
               "of a model with longrope: its long factors from the first position on, for texts behind its original "
               "context");
}

void add_kernels_option(Command& command, std::string& kernels) {
  std::vector<std::string> names;
  for (const Kernels* const* table = all_kernels(); *table != nullptr; ++table) names.emplace_back((*table)->name);
  command.group("Model");
  command.option("--kernels", kernels, "kernel table; the best of this CPU when left out").choices(names);
}

void add_threads_option(Command& command, int& threads) {
  command.group("Model");
  command.option("--threads,-t", threads, "threads to compute with; all of the machine's when left out")
      .range(1, threads_max);
}

void add_threads_option(Command& command, NumberOrAuto& threads) {
  command.group("Model");
  command.option("--threads,-t", threads,
                 "threads to compute with; auto: as many as this target is fastest with here, measured for a second "
                 "when it is loaded; all of the machine's when left out");
}

void add_result_options(Command& command, std::string& json_file, bool& quiet) {
  command.group("Output");
  command.option("--json FILE", json_file, "write the result as JSON to this file; - is standard output");
  command.flag("--quiet", quiet, "print nothing but errors");
}

void add_seed_option(Command& command, std::uint64_t& seed, const std::string& help) {
  command.option("--seed", seed, help)
      .range<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max())
      .show_default();
}

int threads_to_use(const CommonOptions& options) {
  if (options.threads.number == NumberOrAuto::automatic) {
    throw Error(
        "--threads auto depends on measured times, and this command compares or measures runs; give a number, "
        "or leave it out for all of the machine's");
  }
  return options.threads.number > 0 ? options.threads.number : threads();
}

LoadOptions layout_of(const LayoutOptions& options) {
  LoadOptions result(kernels_by_name(options.kernels), quantization_by_name(options.quantize),
                     kv_format_by_name(options.kv));
  result.long_context = options.long_context;
  return result;
}

Checkpoint with_adapters(Checkpoint target, const LayoutOptions& options) {
  for (const std::string& adapter : options.lora) target.merge(read_lora_source(adapter));
  return target;
}

std::vector<std::string> paths_of_adapters(const LayoutOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& adapter : options.lora) paths.push_back(read_lora_source(adapter).path.string());
  return paths;
}

bool prompt_is_piped(const CommonOptions& options) {
  struct stat input {};
  return options.prompt.empty() && options.prompt_file.empty() && options.prompt_tokens.empty() &&
         fstat(STDIN_FILENO, &input) == 0 && (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode));
}

Sampling sampling_of(const CommonOptions& options) {
  Sampling sampling = options.sampling;
  try {
    if (!options.samplers.empty()) sampling.apply_named(options.samplers);
  } catch (const Error& wrong) {
    throw Error("--samplers: " + std::string(wrong.what()));
  }
  if (sampling.mirostat == 2) sampling.apply_mirostat_alone();
  if (sampling.mirostat == 1) throw Error("--mirostat: version 1 is not there; give 2, or 0 for none");
  return sampling;
}

void set_dry_breakers(Sampling& sampling, const CommonOptions& options, const Tokenizer* tokenizer) {
  const bool given = !options.dry_breakers.empty();
  const bool none = options.dry_breakers == std::vector<std::string>{"none"};
  if (!sampling.dries() || none) return;
  if (tokenizer == nullptr && !given) return;
  if (tokenizer == nullptr) {
    throw Error("--dry-sequence-breaker needs a tokenizer, and " + options.target + " has none; leave it out");
  }
  try {
    sampling.dry_breakers = breaking_tokens(*tokenizer, given ? options.dry_breakers : default_breakers());
  } catch (const Error& wrong) {
    throw Error("--dry-sequence-breaker: " + std::string(wrong.what()));
  }
}

Request make_request(const CommonOptions& options, const Checkpoint& files, const Tokenizer* tokenizer) {
  Request request;
  if (!options.prompt_tokens.empty()) {
    request.prompt = parse_tokens(options.prompt_tokens);
  } else {
    const std::string file = prompt_is_piped(options) ? "-" : options.prompt_file;
    std::string text = file.empty() ? options.prompt : read_prompt(file);
    if (!file.empty() && text.ends_with('\n')) text.pop_back();  // as llama.cpp does: editors and echo end lines
    if (text.empty()) throw Error("there is no prompt; give --prompt, --prompt-file or --prompt-tokens");
    if (tokenizer == nullptr) {
      throw Error(options.target +
                  " has no tokenizer (tokenizer.json or tokenizer.model); give the prompt as --prompt-tokens");
    }
    request.prompt = tokenizer->encode(text, true, options.parse_special);
  }
  request.sampling = sampling_of(options);
  request.stops = read_stop_tokens(files);
  request.max_new_tokens = options.max_new_tokens;
  if (const std::vector<int>& numbers = options.context_shift; !numbers.empty()) {
    const int half = (numbers[0] - std::min(numbers[0], numbers[1])) / 2;
    request.context_shift = {numbers[0], numbers[1], numbers.size() > 2 ? numbers[2] : half};
    if (const std::string why = request.context_shift->error(); !why.empty()) throw Error("--context-shift: " + why);
  }
  return request;
}

int fixed_draft_max(const CommonOptions& options) {
  if (options.draft_max.number != NumberOrAuto::automatic) return options.draft_max.number;
  throw Error(
      "--draft-max auto depends on measured times, and a proof has to be repeatable; give a number, or leave "
      "it out");
}

Execution make_execution(const CommonOptions& options) {
  return {.draft_max = options.draft_max.number, .verification = verification_by_name(options.verification)};
}

Execution execution_to_write(const CommonOptions& options, const std::string& draft) {
  Execution execution = make_execution(options);
  const bool same_text = sampling_of(options).greedy() || options.rule == matching.name;
  if (execution.draft_max == 0 && same_text && Engine::tuning_error(draft).empty()) {
    execution.draft_max = Execution::draft_max_auto;
  }
  return execution;
}

bool is_standard_output(const std::string& path) {
  struct stat there {};
  struct stat output {};
  return path == "-" || (stat(path.c_str(), &there) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
                         there.st_dev == output.st_dev && there.st_ino == output.st_ino);
}

namespace {

std::filesystem::file_status status_of(const std::filesystem::path& path) {
  std::error_code failure;
  return std::filesystem::status(path, failure);
}

/// Of what is there.
bool is_anything_but_a_file(std::filesystem::file_status status) {
  const bool nothing = !std::filesystem::status_known(status) || status.type() == std::filesystem::file_type::not_found;
  return !nothing && !std::filesystem::is_regular_file(status);
}

/// Returns `path` with links resolved. Throws Error when that is one of the inputs or lies inside one.
std::filesystem::path place_outside(const std::vector<std::string>& inputs, const std::filesystem::path& path) {
  std::error_code failure;
  const auto place = std::filesystem::weakly_canonical(path, failure);
  if (failure) throw Error(printable(path.string()) + ": cannot be written: " + failure.message());
  for (const std::string& input : inputs) {
    if (input.empty()) continue;
    const auto guarded = std::filesystem::weakly_canonical(input, failure);
    const auto [end, rest] = std::mismatch(guarded.begin(), guarded.end(), place.begin(), place.end());
    if (failure || end != guarded.end()) continue;
    throw Error(in_quotes(path.string()) + " would overwrite an input of this command or add to it: " +
                in_quotes(input) + "; choose another path");
  }
  return place;
}

}  // namespace

void require_replaceable(const std::filesystem::path& path, const std::vector<std::string>& protected_paths) {
  if (is_anything_but_a_file(status_of(path))) {
    throw Error("cannot write " + in_quotes(path.string()) + ": it is not a regular file; choose another path");
  }
  place_outside(protected_paths, path);
}

void require_replaceable_gguf(const std::filesystem::path& path, const std::vector<std::string>& protected_paths) {
  require_replaceable(path, protected_paths);
  if (path.extension() != ".gguf") {
    throw Error("cannot write " + in_quotes(path.string()) + ": the name of a GGUF ends in .gguf; choose another path");
  }
}

OutputFile::OutputFile(const std::string& path, const std::vector<std::string>& protected_paths) : path_(path) {
  if (is_standard_output(path_)) return;
  if (const auto status = status_of(path_); is_anything_but_a_file(status)) {
    const int file = open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // does not wait for a reader
    if (file < 0 && errno == ENXIO && std::filesystem::is_fifo(status)) {
      throw Error("cannot write " + in_quotes(path_) + ": nobody reads this pipe; start its reader first");
    }
    if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
    write_to(file);
    return;
  }
  partial_.emplace(place_outside(protected_paths, path_));
  write_to(open(partial_->path().c_str(), O_WRONLY | O_CLOEXEC));
}

void OutputFile::write_to(int file) {
  stream_ = file < 0 ? nullptr : fdopen(file, "wb");
  if (stream_ == nullptr) fail();
}

OutputFile::~OutputFile() {
  if (stream_ != nullptr && stream_ != stdout) std::fclose(stream_);
}

void OutputFile::fail() const {
  throw Error(printable(path_) + ": cannot be written: " + std::generic_category().message(errno));
}

void OutputFile::append(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stream_) != text.size()) fail();
}

void OutputFile::flush() {
  if (std::fflush(stream_) != 0) fail();
}

void OutputFile::finish() {
  flush();
  if (stream_ == stdout) return;
  if (std::fclose(std::exchange(stream_, nullptr)) != 0) fail();
  if (partial_) partial_->take_place();
}

void OutputFile::write(const std::string& text) {
  append(text);
  finish();
}

}  // namespace draftproof
