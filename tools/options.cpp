// SPDX-License-Identifier: MIT
#include "tools/options.h"

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>

#include "ref/base/error.h"
#include "ref/models/models.h"

namespace draftproof {
namespace {

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
  if (!file) throw Error("--prompt-file: cannot read '" + path + "'");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

void add_common_options(CLI::App& command, CommonOptions& options) {
  command.add_option("target", options.target, "folder of the target model")->required();
  auto* const text = command.add_option("--prompt", options.prompt, "text to continue");
  auto* const file = command.add_option("--prompt-file", options.prompt_file, "file with the text to continue");
  auto* const ids = command.add_option("--prompt-tokens", options.prompt_tokens, "token ids to continue: 12,7,99");
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  command.add_option("--max-new-tokens", options.max_new_tokens, "tokens to write at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  Sampling& s = options.sampling;
  command.add_option("--temperature", s.temperature, "0: greedy")->check(CLI::Range(0.0, 1000.0))->capture_default_str();
  command.add_option("--top-k", s.top_k, "0: off")->check(CLI::NonNegativeNumber)->capture_default_str();
  command.add_option("--top-p", s.top_p, "1: off")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  command.add_option("--min-p", s.min_p, "0: off")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  command.add_option("--repeat-penalty", s.repeat_penalty, "1: off")->check(CLI::Range(0.0, 100.0))->capture_default_str();
  command.add_option("--presence-penalty", s.presence_penalty, "0: off")
      ->check(CLI::Range(-100.0, 100.0))
      ->capture_default_str();
  command.add_option("--frequency-penalty", s.frequency_penalty, "0: off")
      ->check(CLI::Range(-100.0, 100.0))
      ->capture_default_str();
  command.add_option("--repeat-last-n", s.repeat_last_n, "tokens that penalties see; -1: all, 0: none")
      ->check(CLI::Range(-1, std::numeric_limits<int>::max()))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of every random answer")->capture_default_str();
  command.add_option("--rule", options.rule, "matching or rejection")->capture_default_str();
  command.add_option("--kernels", options.kernels, "scalar, avx2, avx512, openblas; the best of this CPU when left out");
  command.add_option("--threads", options.threads, "as many as the machine has when left out")
      ->check(CLI::Range(1, 4096));
  command.add_option("--draft-max", options.draft_max, "guesses per round at most; as suits the draft when left out")
      ->check(CLI::Range(1, 1024));
  command.add_option("--json", options.json_file, "write the result as JSON to this file; - is standard output");
  command.add_flag("--quiet", options.quiet, "print nothing but errors");
}

std::unique_ptr<Tokenizer> find_tokenizer(const std::string& target) {
  if (!std::filesystem::exists(std::filesystem::path(target) / "tokenizer.json")) return nullptr;
  return std::make_unique<Tokenizer>(Tokenizer::load(target));
}

Request make_request(const CommonOptions& options, const Tokenizer* tokenizer) {
  Request request;
  if (!options.prompt_tokens.empty()) {
    request.prompt = parse_tokens(options.prompt_tokens);
  } else {
    const std::string text = options.prompt_file.empty() ? options.prompt : read_text(options.prompt_file);
    if (text.empty()) throw Error("there is nothing to continue; give --prompt, --prompt-file or --prompt-tokens");
    if (tokenizer == nullptr) {
      throw Error(options.target + " holds no tokenizer.json; give the prompt as --prompt-tokens");
    }
    request.prompt = tokenizer->encode(text);
  }
  request.sampling = options.sampling;
  request.stops = read_stop_tokens(options.target);
  request.max_new_tokens = options.max_new_tokens;
  request.draft_max = options.draft_max;
  return request;
}

void write_file(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return;
  }
  // Written beside the place and moved there, so that a full disk never leaves half a result behind.
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary);
  file << text;
  file.close();
  std::error_code failure;
  if (file) std::filesystem::rename(partial, path, failure);
  if (!file || failure) throw Error("cannot write '" + path + "'; check the folder and the disk");
}

}  // namespace draftproof
