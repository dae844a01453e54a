// SPDX-License-Identifier: MIT
// The prefix cache of a command that decodes, saved in a file from one run to the next.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ref/caches/prefix_cache.h"
#include "ref/decoding/engine.h"
#include "ref/decoding/prefix_file.h"
#include "tools/command_line.h"

namespace draftproof {

struct PrefixCacheOptions {
  std::string file;  // empty: no prefix cache
  ByteCount size = {std::uint64_t{4} << 30};
};

/// --prefix-cache and --prefix-cache-size.
void add_prefix_cache_options(Command& command, PrefixCacheOptions& options);

class SavedPrefixes {
 public:
  /// The file of the options, which is not empty. `protected_paths`: the files and folders that the command reads or
  /// writes. Throws Error when the file is one of them, is not a regular file, or cannot be written.
  SavedPrefixes(const PrefixCacheOptions& options, const std::vector<std::string>& protected_paths);

  /// Says whose prefixes these are; comes first. Throws Error when the weights cannot be read.
  void begin(const Engine& engine, const std::string& draft);
  /// Takes what earlier runs of the engine's target with `draft`, if any, have saved; nothing when there is no file.
  /// Throws Error when the file is not whole or is of other models or numerics, and leaves it as it is.
  void load(Engine& engine, const std::string& draft);

  /// Replaces the file completely or not at all; begin() came before. Throws Error when it cannot be written.
  void save() const;

  PrefixCache& cache() noexcept { return cache_; }

 private:
  std::filesystem::path file_;  // with links resolved, so that a link stays one
  PrefixOrigin origin_;
  PrefixCache cache_;
};

}  // namespace draftproof
