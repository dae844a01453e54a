// SPDX-License-Identifier: MIT
// Files for tests: a temporary folder, safetensors bytes made in memory, the message of an Error.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ref/base/error.h"
#include "ref/formats/stored_tensor.h"

namespace draftproof {

inline const std::filesystem::path source_dir = DRAFTPROOF_SOURCE_DIR;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "draftproof-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Removes an older file first, because some file systems sync to disk when a file is truncated and written again.
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::filesystem::remove(path_ / name);
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string bytes_of_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A safetensors file with this header, valid or not.
inline std::string safetensors(const std::string& header, const std::string& data) {
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + header + data;
}

struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// A valid safetensors file of these tensors. `padding` spaces after the header move the alignment of the data.
inline std::string safetensors(const std::vector<Tensor>& tensors, std::size_t padding = 0) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const Tensor& tensor : tensors) {
    header += ",\"" + tensor.name + R"(":{"dtype":")" + tensor.dtype + R"(","shape":[)";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) header += (i ? "," : "") + std::to_string(tensor.shape[i]);
    header += R"(],"data_offsets":[)" + std::to_string(data.size()) + ",";
    data += tensor.bytes;
    header += std::to_string(data.size()) + "]}";
  }
  return safetensors(header + "}" + std::string(padding, ' '), data);
}

/// Returns a tensor's bytes in its file.
inline std::string stored_bytes(const StoredTensor& tensor) {
  std::string bytes(tensor.bytes, '\0');
  tensor.file->read(tensor.offset, bytes.size(), bytes.data());
  return bytes;
}

/// Returns the message of the Error that `action` must throw.
template <class Action>
std::string error_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

/// A file that must be rejected, and texts that the message must contain.
struct BadFile {
  std::string name;
  std::string bytes;
  std::vector<std::string> words;
};

inline void expect_words(const std::string& message, const BadFile& bad) {
  for (const std::string& word : bad.words) EXPECT_THAT(message, testing::HasSubstr(word));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
  EXPECT_LT(message.size(), 1000U);
}

inline std::string name_of(const testing::TestParamInfo<BadFile>& info) { return info.param.name; }
inline void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.name; }

}  // namespace draftproof
