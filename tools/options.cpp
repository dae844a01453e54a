// SPDX-License-Identifier: MIT
#include "tools/options.h"

#include <fcntl.h>
#include <fmt/format.h>
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
#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/decoding/engine.h"
#include "ref/formats/gguf.h"
#include "ref/formats/printable.h"
#include "ref/models/models.h"
#include "tools/complaint.h"

namespace draftproof {
namespace {

constexpr std::size_t prompt_bytes_max = std::size_t{1} << 24;
constexpr int threads_max = 256;
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

std::string read_text(const std::string& path) {
  try {
    Incoming bytes(path);
    std::string text(prompt_bytes_max + 1, '\0');
    text.resize(static_cast<std::size_t>(bytes.sgetn(text.data(), static_cast<std::streamsize>(text.size()))));
    if (text.empty()) throw Error(path + ": is empty");
    if (text.size() > prompt_bytes_max) throw Error(path + ": is longer than 16 MiB");
    return text;
  } catch (const Error& wrong) {
    throw Error("--prompt-file: " + std::string(wrong.what()));
  }
}

}  // namespace

template <class Number>
CLI::Validator within(Number least, Number most) {
  const char* const kind = std::is_integral_v<Number> ? "whole number" : "number";
  return CLI::Validator(
      [=](std::string& text) {
        Number value{};
        const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool read = failure == std::errc() && end == text.data() + text.size();
        const bool plain = !std::is_integral_v<Number> || text == fmt::format("{}", value);  // 010 is octal to the flag
        if (read && plain && value >= least && value <= most) return std::string();
        return fmt::format("{} is not a {} from {} to {}", in_quotes(text), kind, least, most);
      },
      fmt::format("{} from {} to {}", kind, least, most));
}

template CLI::Validator within(int, int);
template CLI::Validator within(std::int64_t, std::int64_t);
template CLI::Validator within(std::uint64_t, std::uint64_t);
template CLI::Validator within(double, double);

void add_common_options(CLI::App& command, CommonOptions& options) {
  command.add_option("target", options.target, "the target model: a folder, or a .gguf file")->required();
  auto* const text = command.add_option("--prompt", options.prompt, "text to continue");
  auto* const file = command.add_option("--prompt-file", options.prompt_file, "file with the text to continue");
  auto* const ids = command.add_option("--prompt-tokens", options.prompt_tokens, "token ids to continue: 12,7,99");
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  command.add_option("--max-new-tokens", options.max_new_tokens, "tokens to write at most")
      ->check(within(0, int_max))
      ->capture_default_str();
  Sampling& s = options.sampling;
  command.add_option("--temperature", s.temperature, "0: greedy")->check(within(0.0, 1000.0))->capture_default_str();
  command.add_option("--top-k", s.top_k, "0: off")->check(within(0, int_max))->capture_default_str();
  command.add_option("--top-p", s.top_p, "1: off")->check(within(0.0, 1.0))->capture_default_str();
  command.add_option("--min-p", s.min_p, "0: off")->check(within(0.0, 1.0))->capture_default_str();
  command.add_option("--repeat-penalty", s.repeat_penalty, "1: off")->check(within(0.0, 100.0))->capture_default_str();
  command.add_option("--presence-penalty", s.presence_penalty, "0: off")
      ->check(within(-100.0, 100.0))
      ->capture_default_str();
  command.add_option("--frequency-penalty", s.frequency_penalty, "0: off")
      ->check(within(-100.0, 100.0))
      ->capture_default_str();
  command.add_option("--repeat-last-n", s.repeat_last_n, "tokens that penalties see; -1: all, 0: none")
      ->check(within(-1, int_max))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of every random answer")
      ->check(within<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  command.add_option("--rule", options.rule, "matching or rejection")->capture_default_str();
  add_layout_options(command, options.load_options);
  add_threads_option(command, options.threads);
  command.add_option("--draft-max", options.draft_max, "draft tokens per round at most; as suits the draft when left out")
      ->check(within(1, 1024));
  command.add_option("--json", options.json_file, "write the result as JSON to this file; - is standard output");
  command.add_flag("--quiet", options.quiet, "print nothing but errors");
}

void add_layout_options(CLI::App& command, LayoutOptions& options) {
  add_kernels_option(command, options.kernels);
  command.add_option("--quantize", options.quantize, "what weights of floats become while they are loaded")
      ->check(CLI::IsMember({"none", "q8", "q4"}))
      ->capture_default_str();
  command.add_option("--kv", options.kv, "how keys and values are stored")
      ->check(CLI::IsMember({"f32", "bf16", "q8"}))
      ->capture_default_str();
}

void add_kernels_option(CLI::App& command, std::string& kernels) {
  command.add_option("--kernels", kernels,
                     "scalar, avx2, avx2vnni, avx512, avx512vnni, amx, openblas; the best of this CPU when left out");
}

void add_threads_option(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "as many as the machine has when left out")
      ->check(within(1, threads_max));
}

int threads_of(const CommonOptions& options) { return options.threads > 0 ? options.threads : threads(); }

LoadOptions layout_of(const LayoutOptions& options) {
  return {kernels_by_name(options.kernels), quantization_by_name(options.quantize), kv_format_by_name(options.kv)};
}

bool has_tokenizer(const std::filesystem::path& target) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(target, failure)) {
    return std::filesystem::exists(target / "tokenizer.json", failure);
  }
  return read_gguf_metadata(target).contains("tokenizer.ggml.tokens");
}

std::unique_ptr<Tokenizer> tokenizer_to_read(const CommonOptions& options) {
  if (!options.prompt_tokens.empty() || !has_tokenizer(options.target)) return nullptr;
  try {
    return std::make_unique<Tokenizer>(Tokenizer::load(options.target));
  } catch (const Error& wrong) {
    throw Error(std::string(wrong.what()) + "; give the prompt as --prompt-tokens");
  }
}

std::unique_ptr<Tokenizer> tokenizer_to_write(const CommonOptions& options) {
  if (!has_tokenizer(options.target)) return nullptr;
  try {
    return std::make_unique<Tokenizer>(Tokenizer::load(options.target));
  } catch (const Error& wrong) {
    if (!options.quiet) complain("showing tokens, not text: " + std::string(wrong.what()));
    return nullptr;
  }
}

Request make_request(const CommonOptions& options, const Tokenizer* tokenizer) {
  Request request;
  if (!options.prompt_tokens.empty()) {
    request.prompt = parse_tokens(options.prompt_tokens);
  } else {
    const std::string text = options.prompt_file.empty() ? options.prompt : read_text(options.prompt_file);
    if (text.empty()) throw Error("there is nothing to continue; give --prompt, --prompt-file or --prompt-tokens");
    if (tokenizer == nullptr) {
      throw Error(options.target + " holds no tokenizer (tokenizer.json); give the prompt as --prompt-tokens");
    }
    request.prompt = tokenizer->encode(text);
  }
  request.sampling = options.sampling;
  request.stops = read_stop_tokens(options.target);
  request.max_new_tokens = options.max_new_tokens;
  request.draft_max = options.draft_max;
  return request;
}

bool is_standard_output(const std::string& path) {
  struct stat there {};
  struct stat output {};
  return path == "-" || (stat(path.c_str(), &there) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
                         there.st_dev == output.st_dev && there.st_ino == output.st_ino);
}

void require_replaceable(const std::filesystem::path& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw Error("cannot write " + in_quotes(path.string()) + ": it is no file; name another place");
}

OutputFile::OutputFile(const std::string& path, const std::vector<std::string>& protected_paths) : path_(path) {
  if (is_standard_output(path_)) return;
  std::error_code failure;
  const auto status = std::filesystem::status(path_, failure);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    const int file = open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // which waits for no reader
    if (file < 0 && errno == ENXIO && std::filesystem::is_fifo(status)) {
      throw Error("cannot write " + in_quotes(path_) + ": nobody reads this pipe; start what reads it first");
    }
    if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
    write_to(file);
    return;
  }
  place_ = std::filesystem::weakly_canonical(path_, failure);
  if (failure) throw Error("cannot write " + in_quotes(path_) + ": " + failure.message());
  for (const std::string& source : protected_paths) {
    if (source.empty()) continue;
    const auto guarded = std::filesystem::weakly_canonical(source, failure);
    const auto [end, rest] = std::mismatch(guarded.begin(), guarded.end(), place_.begin(), place_.end());
    if (!failure && end == guarded.end())
      throw Error(in_quotes(path_) + " would overwrite what this command reads, " + in_quotes(source));
  }
  partial_ = place_;
  partial_ += ".partial";
  unlink(partial_.c_str());  // of a run that was killed; whatever else it is, it is not written into
  write_to(open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
}

void OutputFile::write_to(int file) {
  stream_ = file < 0 ? nullptr : fdopen(file, "wb");
  if (stream_ == nullptr) fail();
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (stream_ != nullptr && stream_ != stdout) std::fclose(stream_);
  if (!partial_.empty()) std::filesystem::remove(partial_, ignored);
}

void OutputFile::fail() const {
  throw Error("cannot write " + in_quotes(path_) + ": " + std::generic_category().message(errno));
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
  if (!partial_.empty() && std::rename(partial_.c_str(), place_.c_str()) != 0) fail();
  partial_.clear();
}

void OutputFile::write(const std::string& text) {
  append(text);
  finish();
}

}  // namespace draftproof
