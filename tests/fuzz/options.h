// SPDX-License-Identifier: MIT
// Command-line options of every fuzz target: [--seconds S] [--seed N] [FILE...]
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace draftproof {

struct FuzzOptions {
  double seconds = 2;
  std::uint64_t seed = 1;
  std::vector<std::filesystem::path> paths;
};

inline FuzzOptions read_fuzz_options(int count, char** arguments) {
  FuzzOptions options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--seconds" && i + 1 < count) {
      options.seconds = std::strtod(arguments[++i], nullptr);
    } else if (argument == "--seed" && i + 1 < count) {
      options.seed = std::strtoull(arguments[++i], nullptr, 10);
    } else {
      options.paths.emplace_back(argument);
    }
  }
  return options;
}

}  // namespace draftproof
