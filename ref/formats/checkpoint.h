// SPDX-License-Identifier: MIT
// Named tensors and a configuration, from a Hugging Face folder or a GGUF file. Model implementations read weights
// through this class and do not depend on the file format.
//
// Names, shapes, the order of rows and the configuration are those of Hugging Face. Those of a GGUF are translated
// (gguf_names.h) when its architecture is listed there; a tensor without a translation keeps its own name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ref/formats/json.h"
#include "ref/formats/stored_tensor.h"

namespace draftproof {

struct GgufNames;

class Checkpoint {
 public:
  /// Opens a folder with `model.safetensors`, or else with the shards named by `model.safetensors.index.json`; every
  /// tensor that the index lists must be in its shard (tensors of a shard that the index does not list count as well).
  /// Or opens a .gguf file; of a split GGUF, the first part. Reads only headers.
  explicit Checkpoint(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const noexcept { return tensors_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Returns the name that this tensor has, or would have, in the file.
  std::string name_in_file(const std::string& name) const;

  /// Returns config.json, or the metadata of a GGUF translated to it. Throws Error when it is missing or cannot be
  /// translated.
  Json config() const;

  /// Returns the tensor as a matrix of this shape. Throws Error, naming the file, the tensor (as named in the file) and
  /// the expected shape, when it is missing, has another shape or a type that no kernel supports. Rows are checked for
  /// values that are not finite when they are read.
  WeightSource weight(const std::string& name, int outputs, int inputs) const;
  /// Reads the tensor, which must have exactly this shape, and converts it to floats.
  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape) const;

  /// Whether both tensors exist and have equal types, shapes and bytes.
  bool same(const std::string& one, const std::string& other) const;

  std::uint64_t bytes() const noexcept;  // of all tensors

 private:
  void open_folder();
  void open_gguf();
  const StoredTensor& find(const std::string& name, const std::vector<std::int64_t>& shape) const;

  std::filesystem::path path_;
  std::map<std::string, StoredTensor> tensors_;
  const GgufNames* names_ = nullptr;  // nullptr: a folder
  std::optional<Json> gguf_config_;       // none: a folder, which has its own
};

}  // namespace draftproof
