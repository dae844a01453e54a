// SPDX-License-Identifier: MIT
// Lookup files for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ref/drafts/lookup_file.h"
#include "tests/folder.h"

namespace draftproof {

/// A file of these numbers, whatever they are.
inline std::filesystem::path file_of(const test::Folder& folder, const std::vector<std::int32_t>& numbers) {
  const std::filesystem::path file = folder.path() / "lookup.bin";
  test::put(file, {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t)});
  return file;
}

inline std::string bytes_of(const NgramCounts& counts) {
  std::string bytes;
  write_lookup_file(counts, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

}  // namespace draftproof
