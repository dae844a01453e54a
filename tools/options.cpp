// SPDX-License-Identifier: MIT
#include "tools/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>

#include "kernels/operations.h"
#include "ref/base/error.h"
#include "ref/decoding/engine.h"
#include "ref/formats/gguf.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

constexpr std::size_t prompt_bytes_max = std::size_t{1} << 24;
constexpr int threads_max = 256;

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
      throw Error("--prompt-tokens: '" + item + "' is not a token id; give ids like 12,7,99");
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(prompt_bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || file.gcount() == 0) throw Error("--prompt-file: '" + path + "' cannot be read or is empty");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > prompt_bytes_max) throw Error("--prompt-file: '" + path + "' is longer than 16 MiB");
  return text;
}

/// CLI::Range lets NaN pass.
CLI::Validator finite(double least, double most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        if (number && value >= least && value <= most) return std::string();
        return fmt::format("{} is not a number between {} and {}", text, least, most);
      },
      fmt::format("FLOAT in [{} - {}]", least, most));
}

}  // namespace

void add_common_options(CLI::App& command, CommonOptions& options) {
  command.add_option("target", options.target, "the target model: a folder, or a .gguf file")->required();
  auto* const text = command.add_option("--prompt", options.prompt, "text to continue");
  auto* const file = command.add_option("--prompt-file", options.prompt_file, "file with the text to continue");
  auto* const ids = command.add_option("--prompt-tokens", options.prompt_tokens, "token ids to continue: 12,7,99");
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  command.add_option("--max-new-tokens", options.max_new_tokens, "tokens to write at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  Sampling& s = options.sampling;
  command.add_option("--temperature", s.temperature, "0: greedy")->check(finite(0, 1000))->capture_default_str();
  command.add_option("--top-k", s.top_k, "0: off")->check(CLI::NonNegativeNumber)->capture_default_str();
  command.add_option("--top-p", s.top_p, "1: off")->check(finite(0, 1))->capture_default_str();
  command.add_option("--min-p", s.min_p, "0: off")->check(finite(0, 1))->capture_default_str();
  command.add_option("--repeat-penalty", s.repeat_penalty, "1: off")->check(finite(0, 100))->capture_default_str();
  command.add_option("--presence-penalty", s.presence_penalty, "0: off")
      ->check(finite(-100, 100))
      ->capture_default_str();
  command.add_option("--frequency-penalty", s.frequency_penalty, "0: off")
      ->check(finite(-100, 100))
      ->capture_default_str();
  command.add_option("--repeat-last-n", s.repeat_last_n, "tokens that penalties see; -1: all, 0: none")
      ->check(CLI::Range(-1, std::numeric_limits<int>::max()))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of every random answer")
      ->check(CLI::Number & CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--rule", options.rule, "matching or rejection")->capture_default_str();
  add_layout_options(command, options.layout);
  add_threads_option(command, options.threads);
  command.add_option("--draft-max", options.draft_max, "guesses per round at most; as suits the draft when left out")
      ->check(CLI::Range(1, 1024));
  command.add_option("--json", options.json_file, "write the result as JSON to this file; - is standard output");
  command.add_flag("--quiet", options.quiet, "print nothing but errors");
}

void add_layout_options(CLI::App& command, LayoutOptions& options) {
  add_kernels_option(command, options.kernels);
  command.add_option("--quantize", options.quantise, "what weights of floats become while they are loaded")
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
      ->check(CLI::Range(1, threads_max));
}

int threads_of(const CommonOptions& options) { return options.threads > 0 ? options.threads : threads(); }

Layout layout_of(const LayoutOptions& options) {
  return {kernels_by_name(options.kernels), quantisation_by_name(options.quantise), kv_format_by_name(options.kv)};
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
    throw Error(std::string(wrong.what()) + "; repair it, or give the prompt as --prompt-tokens");
  }
}

std::unique_ptr<Tokenizer> tokenizer_to_write(const CommonOptions& options) {
  if (!has_tokenizer(options.target)) return nullptr;
  try {
    return std::make_unique<Tokenizer>(Tokenizer::load(options.target));
  } catch (const Error& wrong) {
    if (!options.quiet) fmt::print(stderr, "showing tokens, not text: {}\n", wrong.what());
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

OutputFile::OutputFile(const std::string& path, const std::vector<std::string>& protected_paths) : path_(path) {
  if (path_ == "-") return;
  std::error_code failure;
  place_ = std::filesystem::weakly_canonical(path_, failure);
  if (failure) throw Error("cannot write '" + path_ + "'; check the folder");
  for (const std::string& source : protected_paths) {
    if (source.empty()) continue;
    const auto guarded = std::filesystem::weakly_canonical(source, failure);
    const auto [end, rest] = std::mismatch(guarded.begin(), guarded.end(), place_.begin(), place_.end());
    if (!failure && end == guarded.end())
      throw Error("'" + path_ + "' would overwrite what this command reads, " + source);
  }
  if (std::filesystem::exists(place_, failure) && !std::filesystem::is_regular_file(place_, failure)) {
    if (std::filesystem::is_directory(place_, failure)) throw Error("cannot write '" + path_ + "'; it is a folder");
    return;
  }
  partial_ = place_;
  partial_ += ".partial";
  stream_.open(partial_, std::ios::binary);
  if (!stream_) fail();
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (!partial_.empty()) std::filesystem::remove(partial_, ignored);
}

void OutputFile::fail() const { throw Error("cannot write '" + path_ + "'; check the folder and the disk"); }

void OutputFile::append(std::string_view text) {
  if (path_ != "-" && !stream_.is_open()) stream_.open(place_, std::ios::binary);
  std::ostream& stream = path_ == "-" ? std::cout : static_cast<std::ostream&>(stream_);
  if (!(stream << text)) fail();
}

void OutputFile::flush() {
  std::ostream& stream = path_ == "-" ? std::cout : static_cast<std::ostream&>(stream_);
  if (!(stream << std::flush)) fail();
}

void OutputFile::finish() {
  flush();
  if (path_ == "-") return;
  stream_.close();
  std::error_code failure;
  if (stream_ && !partial_.empty()) std::filesystem::rename(partial_, place_, failure);
  if (!stream_ || failure) fail();
  partial_.clear();
}

void OutputFile::write(const std::string& text) {
  append(text);
  finish();
}

}  // namespace draftproof
