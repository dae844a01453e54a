// SPDX-License-Identifier: MIT
// Reads safetensors files: 8 bytes header length, JSON header, tensor bytes.
//
// Files are untrusted: every offset, shape and size is checked before it is used. An invalid file is an Error that
// names the file, the tensor and the remedy.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "ref/formats/stored_tensor.h"

namespace draftproof {

/// One safetensors file.
class SafeTensors {
 public:
  explicit SafeTensors(const std::filesystem::path& file);

  const std::filesystem::path& file() const noexcept { return bytes_->file(); }
  const std::map<std::string, StoredTensor>& tensors() const noexcept { return tensors_; }
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

 private:
  std::shared_ptr<const FileBytes> bytes_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace draftproof
