// SPDX-License-Identifier: MIT
#include "tools/weights_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ref/base/digest.h"
#include "ref/base/incoming.h"
#include "ref/base/sha256.h"

namespace draftproof {
namespace {

/// Calls `take` with the bytes of the files, piece by piece.
template <class Take>
void read_files(const std::vector<std::filesystem::path>& files, const Take& take) {
  std::vector<char> piece(std::size_t{1} << 20);
  for (const std::filesystem::path& file : files) {
    Incoming bytes(file);
    while (const auto count = bytes.sgetn(piece.data(), static_cast<std::streamsize>(piece.size()))) {
      take(std::string_view(piece.data(), static_cast<std::size_t>(count)));
    }
  }
}

/// The files of a model that its weights and its config are in.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  const std::filesystem::path target = checkpoint_file(path);
  if (!std::filesystem::is_directory(target)) return {target};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(target)) {
    const std::filesystem::path& file = entry.path();
    if (file.filename() == "config.json" || file.extension() == ".safetensors") files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  return files;
}

template <class Take>
void read_target(const Checkpoint& target, const Take& take) {
  read_files(files_of(target.path()), take);
  for (const MergedAdapter& adapter : target.adapters()) {
    take(fmt::format("lora {}\n", adapter.source.scale));
    read_files(adapter.files, take);
  }
}

}  // namespace

std::string weights_digest(const Checkpoint& target) {
  Sha256 digest;
  read_target(target, [&](std::string_view bytes) { digest.add(bytes); });
  return "sha256:" + digest.hex();
}

std::string weights_fingerprint(const Checkpoint& target) {
  Digest digest;
  read_target(target, [&](std::string_view bytes) { digest.add_bytes(bytes.data(), bytes.size()); });
  return "xxh3:" + digest.value().hex();
}

std::string weights_fingerprint(const std::filesystem::path& draft) {
  Digest digest;
  read_files(files_of(draft), [&](std::string_view bytes) { digest.add_bytes(bytes.data(), bytes.size()); });
  return "xxh3:" + digest.value().hex();
}

}  // namespace draftproof
