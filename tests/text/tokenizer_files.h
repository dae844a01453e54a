// SPDX-License-Identifier: MIT
// Tokenizer files for tests: the paths of stored ones, and small ones made by the tests.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "ref/base/error.h"
#include "ref/text/byte_alphabet.h"
#include "ref/text/tokenizer.h"

namespace draftproof::test {

inline std::filesystem::path fixtures() { return std::filesystem::path(DRAFTPROOF_SOURCE_DIR) / "fixtures"; }

/// A file of the given content, removed by the destructor.
class ScratchFile {
 public:
  ScratchFile(std::string_view content, const std::string& name) {
    static std::atomic<int> count{0};
    folder_ = std::filesystem::temp_directory_path() /
              ("draftproof-text-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / name;
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~ScratchFile() { std::filesystem::remove_all(folder_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << from << " occurs twice";
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

/// `"SPELLING": BYTE` for all bytes, in JSON.
inline std::string byte_entries() {
  std::string entries;
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelled = byte_alphabet::spelling(static_cast<unsigned char>(byte));
    if (spelled == "\"" || spelled == "\\") spelled = "\\" + spelled;
    entries += (byte == 0 ? "\"" : ", \"") + spelled + "\": " + std::to_string(byte);
  }
  return entries;
}

/// Each byte as the token of its own number, 256 "ab", 257 "abc", 258 "Ġa", 259 "<mark>".
inline std::string small_json() {
  return R"({
"version": "1.0", "truncation": null, "padding": null,
"added_tokens": [{"id": 259, "content": "<mark>", "single_word": false, "lstrip": false, "rstrip": false,
                  "normalized": false, "special": true}],
"normalizer": null,
"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
"post_processor": null,
"decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
"model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
          "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
          "vocab": {)" +
         byte_entries() + R"(, "ab": 256, "abc": 257, "Ġa": 258},
          "merges": [["a", "b"], ["ab", "c"], ["Ġ", "a"]]}
})";
}

inline Tokenizer load_json(std::string_view json) {
  return Tokenizer::load(ScratchFile(json, "tokenizer.json").path());
}

/// Returns the message of the Error that `act` throws; empty when it throws none.
template <typename Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace draftproof::test
