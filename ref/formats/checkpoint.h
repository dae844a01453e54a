// SPDX-License-Identifier: MIT
// Named tensors and their configuration, however they are stored: a Hugging Face folder, or a GGUF file. Model pages
// read weights through this and know neither.
//
// Names, shapes, the order of rows and the configuration are Hugging Face's. Those of a GGUF are translated
// (gguf_names.h); a tensor without a translation keeps its own name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ref/formats/gguf.h"
#include "ref/formats/json.h"
#include "ref/formats/stored_tensor.h"

namespace draftproof {

struct GgufNames;

/// The files of one model. They are opened once, and whoever needs something from them is given the checkpoint.
/// Tensors are read by any number of threads at a time; the other calls are for one thread.
class Checkpoint {
 public:
  /// A folder with `model.safetensors`, or else the shards named by `model.safetensors.index.json`, which must tell the
  /// truth about every tensor it lists (tensors of a shard that it does not list count as well). Or a .gguf file; of a
  /// split, the first. Nothing but headers is read yet.
  explicit Checkpoint(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const noexcept { return tensors_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// How the file has this tensor, or would have it.
  std::string name_in_file(const std::string& name) const;

  /// config.json, or the metadata of a GGUF translated into its terms; read when first asked for. Throws Error when
  /// there is none or it cannot be translated.
  const Json& config() const;

  /// The metadata of a .gguf file; nullptr for a folder.
  const GgufMetadata* metadata() const noexcept { return metadata_ ? &*metadata_ : nullptr; }

  /// The tensor as a matrix of this shape, in a format that we compute with; else an Error naming file, tensor (as the
  /// file has it) and what was expected. That its values are finite is checked as they are read.
  WeightSource weight(const std::string& name, int outputs, int inputs) const;
  /// The tensor, of exactly this shape, read and widened.
  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape) const;

  /// Whether both tensors are there and have one type, one shape and one and the same bytes.
  bool same(const std::string& one, const std::string& other) const;

  std::uint64_t bytes() const noexcept;  // of all tensors

 private:
  void open_folder();
  void open_gguf();
  const StoredTensor& find(const std::string& name, const std::vector<std::int64_t>& shape) const;

  std::filesystem::path path_;
  std::map<std::string, StoredTensor> tensors_;
  const GgufNames* gguf_names_ = nullptr;  // nullptr: a folder
  std::optional<GgufMetadata> metadata_;
  mutable std::optional<Json> config_;     // of a folder: once it was asked for
};

}  // namespace draftproof
