// SPDX-License-Identifier: MIT
// A LoRA adapter: narrow matrices whose products are added to matrices of a model (merged_matrix.h), and tensors that
// stand in the place of the model's. It is a folder as PEFT writes it, adapter_config.json and
// adapter_model.safetensors, or a .gguf file as llama.cpp converts it.
//
// The scale of a product is SCALE * alpha / rank, or of rsLoRA SCALE * alpha / sqrt(rank), computed in double and then
// rounded to float. GGUF files have no rsLoRA, and their alpha 0 means alpha / rank = 1. What replaces a tensor (PEFT's
// modules_to_save) does so at any SCALE.
//
// Files are untrusted. What would compute something else than such a sum (DoRA, biases, parameters of experts, ...) is
// refused by name.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ref/formats/merged_matrix.h"
#include "ref/formats/stored_tensor.h"

namespace draftproof {

/// Which adapter, and how much of it.
struct LoraSource {
  std::filesystem::path path;
  double scale = 1;
};

/// Reads "PATH" or "PATH=SCALE". Throws Error unless SCALE is a number.
LoraSource read_lora_source(const std::string& text);

class LoraAdapter {
 public:
  /// Opens the adapter, or what its path names in the cache of Hugging Face. Reads headers only.
  explicit LoraAdapter(const LoraSource& source);

  const std::filesystem::path& path() const noexcept { return path_; }
  /// All that it consists of.
  const std::vector<std::filesystem::path>& files() const noexcept { return files_; }
  /// The general.architecture of a GGUF; empty of a folder.
  const std::string& architecture() const noexcept { return architecture_; }
  /// By the name of the tensor that each changes: Hugging Face's, or of a GGUF the name in the file.
  const std::map<std::string, LoraProduct>& products() const noexcept { return products_; }
  const std::map<std::string, StoredTensor>& replacements() const noexcept { return replacements_; }

 private:
  void open_folder(double scale);
  void open_gguf(double scale);

  std::filesystem::path path_;
  std::vector<std::filesystem::path> files_;
  std::string architecture_;
  std::map<std::string, LoraProduct> products_;
  std::map<std::string, StoredTensor> replacements_;
};

}  // namespace draftproof
