// SPDX-License-Identifier: MIT
// Named tensors and a configuration, from a Hugging Face folder or a GGUF file. Model implementations read weights
// through this class and do not depend on the file format.
//
// The tensors of a quantized folder that make one matrix are one tensor (quantized_folder/).
//
// Names, shapes, the order of rows and the configuration are Hugging Face's. Those of a GGUF are translated
// (gguf_names.h); a tensor without a translation keeps its own name. The text model of a checkpoint of several
// modalities has the names that it has alone: "model.language_model.x" and "language_model.model.x" are "model.x". So
// is "backbone.x", as Mamba-2 has it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ref/formats/gguf.h"
#include "ref/formats/json.h"
#include "ref/formats/lora_adapter.h"
#include "ref/formats/quantized_folder/folder_quantization.h"
#include "ref/formats/stored_tensor.h"

namespace draftproof {

struct GgufFamily;
struct NestedText;

/// Returns `path`, or the only .gguf file of a folder without .safetensors files. Where nothing is there, OWNER/NAME
/// and OWNER/NAME:FILE are looked for in the cache of Hugging Face. Throws Error when nothing is found.
std::filesystem::path checkpoint_file(const std::filesystem::path& path);

/// What an adapter has changed in a checkpoint.
struct MergedAdapter {
  LoraSource source;
  std::vector<std::filesystem::path> files;
  std::uint64_t matrices = 0;    // that something is added to
  std::uint64_t widened = 0;     // of them, those in quantization blocks, which become bf16
  std::uint64_t bytes_more = 0;  // that these take in memory, unless they are quantized again
  std::uint64_t replaced = 0;    // tensors
};

/// The files of one model. They are opened once, and whoever needs something from them is given the checkpoint.
/// Tensors are read by any number of threads at a time; the other calls are for one thread.
class Checkpoint {
 public:
  /// Opens a folder with `model.safetensors`, or else with the shards named by `model.safetensors.index.json`; every
  /// tensor that the index lists must be in its shard (tensors of a shard that the index does not list count as well).
  /// Or opens a .gguf file, or the only one in a folder (checkpoint_file); of a split GGUF, the first part. Reads only
  /// headers; of a folder also config.json, which says whether it is quantized, and then the orders of its inputs.
  explicit Checkpoint(const std::filesystem::path& path);
  /// Opens a config without its weights: a folder that has config.json, or such a file of any name. There are no
  /// tensors; a model can be described and counted by it, not loaded.
  static Checkpoint of_config(const std::filesystem::path& path);

  /// Adds an adapter to the tensors, which then read as those of the merged model: config, names and shapes stay.
  /// Adapters that are added one after the other give what merging and saving one after the other does. An adapter of
  /// the embedding or of the LM head of a model that has one tensor for both makes them two, as in training. Reads
  /// headers only. Throws Error, naming the tensor, when the adapter is not for this model; the checkpoint is then of
  /// no use.
  void merge(const LoraSource& adapter);
  const std::vector<MergedAdapter>& adapters() const noexcept { return adapters_; }

  bool has_weights() const noexcept { return has_weights_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// How the folder is quantized; nullptr when it is not.
  const FolderQuantization* quantization() const noexcept { return quantization_ ? &*quantization_ : nullptr; }
  const std::map<std::string, StoredTensor>& tensors() const noexcept { return tensors_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Whether it has the tensor in this shape and in a type that kernels support.
  bool has(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// Returns the name that this tensor has, or would have, in the file.
  std::string name_in_file(const std::string& name) const;

  /// config.json, or the metadata of a GGUF translated into its terms; read when first asked for. Throws Error when
  /// there is none or it cannot be translated.
  const Json& config() const;

  /// The metadata of a .gguf file; nullptr for a folder.
  const GgufMetadata* metadata() const noexcept { return metadata_ ? &*metadata_ : nullptr; }

  /// Returns the tensor as a matrix of this shape. Throws Error, naming the file, the tensor (as named in the file) and
  /// the expected shape, when it is missing, has another shape or a type that no kernel supports. Rows are checked for
  /// values that are not finite when they are read.
  WeightSource weight(const std::string& name, int outputs, int inputs) const;
  /// The same of a tensor of any shape; its rows are those of all matrices in it, one after the other.
  WeightSource weight(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// Reads the tensor, which must have exactly this shape, and converts it to floats.
  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape) const;

  /// "'name in the file' of shape [2, 3]", for messages about a tensor that is missing.
  std::string expected(const std::string& name, const std::vector<std::int64_t>& shape) const;

  /// Whether both tensors exist and have equal types, shapes and bytes.
  bool same(const std::string& one, const std::string& other) const;

  std::uint64_t bytes() const noexcept;  // of all tensors

 private:
  Checkpoint() = default;
  void open_folder();
  void open_gguf();
  const StoredTensor& find(const std::string& name, const std::vector<std::int64_t>& shape) const;
  bool has_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& shape) const;
  /// The tensor that this part of an adapter changes.
  StoredTensor& changed_by(const StoredTensor& part, const std::string& name);
  /// The family whose names and rows an adapter or this file has; nullptr: both are folders.
  const GgufFamily* family_for(const LoraAdapter& adapter) const;

  std::filesystem::path path_;
  bool has_weights_ = true;
  std::map<std::string, StoredTensor> tensors_;
  const GgufFamily* gguf_ = nullptr;    // nullptr: a folder
  const NestedText* nested_ = nullptr;  // nullptr: the text model has the names in the file that it has alone
  std::optional<GgufMetadata> metadata_;
  mutable std::optional<Json> config_;  // of a folder: once it was asked for
  std::optional<FolderQuantization> quantization_;
  std::vector<MergedAdapter> adapters_;
};

}  // namespace draftproof
