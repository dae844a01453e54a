// SPDX-License-Identifier: MIT
// Runs a target on its seeds and on damaged ones, in a loop: every outcome must be a value or an Error, never a crash,
// a hang or another exception. The damage is deterministic: a seed reproduces a run.
//
//     fuzz TARGET [--seconds N] [--rounds N] [--seed N] [FILE-OR-FOLDER...]
//     fuzz TARGET --write-seeds FOLDER
//
// Files that are named are run first, as they are: inputs that once failed. On a failure the last line of the output
// names the file with the input that caused it.
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "tests/fuzz/damage.h"
#include "tests/fuzz/options.h"
#include "tests/fuzz/target.h"

namespace draftproof::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const Target* targets[] = {&json,          &gguf,    &safetensors, &folder,      &adapter, &tokenizer,
                                     &chat_template, &grammar, &schema,      &lookup_file, &http,    &request};

/// Throws Error that names them all where there is none of this name.
const Target& find_target(const std::string& name) {
  std::string names;
  for (const Target* target : targets) {
    if (name == target->name) return *target;
    names += std::string(names.empty() ? "" : ", ") + target->name;
  }
  throw Error("there is no target '" + name + "'; there are " + names);
}

/// Returns whether the input was accepted, or writes it to a file and ends the program.
bool outcome(const Target& target, const std::string& input) {
  try {
    return target.run(input);
  } catch (const std::exception& error) {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / (std::string("draftproof-failed-") + target.name);
    std::ofstream(file, std::ios::binary) << input;
    std::printf("%s: %s\n%s\n", target.name, error.what(), file.c_str());
    std::exit(1);
  }
}

std::vector<std::string> named_inputs(const std::vector<std::filesystem::path>& paths) {
  std::vector<std::string> inputs;
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      inputs.push_back(bytes_of_file(path));
      continue;
    }
    for (const auto& file : files_of(path, {""})) inputs.push_back(bytes_of_file(file));
  }
  return inputs;
}

int loop(const Target& target, const FuzzOptions& options) {
  for (const std::string& input : named_inputs(options.paths)) outcome(target, input);
  const std::vector<std::string> seeds = target.seeds();
  if (seeds.empty()) throw Error(fixtures().string() + ": holds no seeds of this target");
  Numbers numbers(options.seed);
  long rounds = 0;
  long accepted = 0;
  double slowest = 0;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (; seconds() < options.seconds || rounds < options.rounds; ++rounds) {
    std::string input = seeds[numbers.below(seeds.size())];
    for (std::size_t times = numbers.below(4); times-- > 0;) {
      target.change(input, seeds[numbers.below(seeds.size())], numbers);
    }
    const double before = seconds();
    accepted += outcome(target, input) ? 1 : 0;
    slowest = std::max(slowest, seconds() - before);
  }
  std::printf("%s: %ld inputs, damaged from %zu seeds, accepted %ld times; the slowest took %.0f ms\n", target.name,
              rounds, seeds.size(), accepted, 1e3 * slowest);
  return accepted > 0 ? 0 : 1;
}

int write_seeds(const Target& target, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : target.seeds()) {
    std::ofstream(folder / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
  }
  return 0;
}

}  // namespace
}  // namespace draftproof::fuzz

int main(int count, char** arguments) {
  using namespace draftproof;
  try {
    if (count < 2) throw Error("name a target");
    const fuzz::Target& target = fuzz::find_target(arguments[1]);
    if (count == 4 && std::string(arguments[2]) == "--write-seeds") return fuzz::write_seeds(target, arguments[3]);
    return fuzz::loop(target, read_fuzz_options(count - 1, arguments + 1));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
