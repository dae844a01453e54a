// SPDX-License-Identifier: MIT
// Lookup files: what was read is written with as many bytes.
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ref/base/error.h"
#include "ref/drafts/lookup_file.h"
#include "tests/fuzz/target.h"

namespace draftproof::fuzz::lookup_file_target {

bool run(const std::string& input) {
  const std::filesystem::path file = scratch("x.lookup", input);
  return accepted([&] {
    const NgramCounts counts = read_lookup_file(file, 1000);
    std::string again;
    write_lookup_file(counts, [&](std::string_view part) { again += part; });
    if (again.size() != input.size()) throw std::runtime_error("a lookup file is written with another size");
  });
}

std::vector<std::string> seeds() {
  std::vector<Token> text;
  for (int i = 0; i < 60; ++i) text.push_back(static_cast<Token>(i * i % 37));
  NgramCounts counts;
  count_pairs(text, counts);
  std::string bytes;
  write_lookup_file(counts, [&](std::string_view part) { bytes += part; });
  return {bytes};
}

}  // namespace draftproof::fuzz::lookup_file_target

namespace draftproof::fuzz {

const Target lookup_file = {"lookup_file", lookup_file_target::run, lookup_file_target::seeds};

}  // namespace draftproof::fuzz
