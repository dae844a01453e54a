// SPDX-License-Identifier: MIT
// Command-line options of every fuzz target: [--seconds S] [--rounds N] [--seed N] [FILE...]. A target that looks at
// --rounds goes on until both are reached.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace draftproof {

struct FuzzOptions {
  double seconds = 2;
  long rounds = 0;
  std::uint64_t seed = 1;
  std::vector<std::filesystem::path> paths;
};

inline FuzzOptions read_fuzz_options(int count, char** arguments) {
  FuzzOptions options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--seconds" && i + 1 < count) {
      options.seconds = std::strtod(arguments[++i], nullptr);
    } else if (argument == "--rounds" && i + 1 < count) {
      options.rounds = std::strtol(arguments[++i], nullptr, 10);
    } else if (argument == "--seed" && i + 1 < count) {
      options.seed = std::strtoull(arguments[++i], nullptr, 10);
    } else {
      options.paths.emplace_back(argument);
    }
  }
  return options;
}

}  // namespace draftproof
