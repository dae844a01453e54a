// SPDX-License-Identifier: MIT
// What is fuzzed: one target for each parser. Our own loop (loop.cpp) and libFuzzer (libfuzzer.cpp) both run it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/fuzz/damage.h"

namespace draftproof::fuzz {

struct Target {
  const char* name;
  /// Reads an input as the callers of the parser do. Returns whether it was accepted; throws where the outcome is
  /// neither a value nor an Error.
  bool (*run)(const std::string& input);
  /// Inputs to begin with, from the fixtures.
  std::vector<std::string> (*seeds)();
  /// Changes an input, by what it means where that is known.
  void (*change)(std::string& input, const std::string& other, Numbers& numbers) = damage;
};

extern const Target json;
extern const Target gguf;
extern const Target safetensors;
extern const Target folder;
extern const Target adapter;
extern const Target tokenizer;
extern const Target chat_template;
extern const Target grammar;
extern const Target schema;
extern const Target lookup_file;
extern const Target http;
extern const Target request;

/// The folder of the fixtures: beside the program, where it was brought to another machine, or in the source.
std::filesystem::path fixtures();
/// The files there and below with these names or extensions, of at most a megabyte, in order of path.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder, const std::vector<std::string>& ends);
std::string bytes_of_file(const std::filesystem::path& file);

/// Writes a file of the folder of this process, in memory where there is such a folder; it is removed at the end.
std::filesystem::path scratch(const std::string& name, const std::string& bytes);
std::filesystem::path scratch();

}  // namespace draftproof::fuzz
