// SPDX-License-Identifier: MIT
#include "tools/weights_digest.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ref/base/digest.h"
#include "ref/base/incoming.h"
#include "ref/base/sha256.h"
#include "ref/formats/checkpoint.h"

namespace draftproof {
namespace {

/// Calls `take` with the bytes of the weights, piece by piece.
template <class Take>
void read_weights(const std::filesystem::path& path, const Take& take) {
  const std::filesystem::path target = checkpoint_file(path);
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(target)) {
    for (const auto& entry : std::filesystem::directory_iterator(target)) {
      const std::filesystem::path& file = entry.path();
      if (file.filename() == "config.json" || file.extension() == ".safetensors") files.push_back(file);
    }
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(target);
  }
  std::vector<char> piece(std::size_t{1} << 20);
  for (const std::filesystem::path& file : files) {
    Incoming bytes(file);
    while (const auto count = bytes.sgetn(piece.data(), static_cast<std::streamsize>(piece.size()))) {
      take(std::string_view(piece.data(), static_cast<std::size_t>(count)));
    }
  }
}

}  // namespace

std::string weights_digest(const std::filesystem::path& target) {
  Sha256 digest;
  read_weights(target, [&](std::string_view bytes) { digest.add(bytes); });
  return "sha256:" + digest.hex();
}

std::string weights_fingerprint(const std::filesystem::path& target) {
  Digest digest;
  read_weights(target, [&](std::string_view bytes) { digest.add_bytes(bytes.data(), bytes.size()); });
  return "xxh3:" + digest.value().hex();
}

}  // namespace draftproof
