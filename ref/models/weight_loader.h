// SPDX-License-Identifier: MIT
// From a checkpoint to packed matrices, by rows: at no time is there a second copy of a model in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kernels/key_values.h"
#include "kernels/packed_matrix.h"
#include "ref/formats/checkpoint.h"

namespace draftproof {

/// What matrices of floats become while they are loaded. Matrices that are stored in blocks stay as they are; so do
/// those whose inputs are no multiple of a block, norms and biases.
/// q8: q8_0. q4: q4_0 in layers; the embedding and the head q6_k, or q8_0 where their inputs are no multiple of 256.
enum class Quantization : std::uint8_t { none, q8, q4 };

const char* name_of(Quantization quantize) noexcept;
/// "none", "q8" or "q4"; Error naming these for any other.
Quantization quantization_by_name(const std::string& name);

/// Throws Error, naming what there is.
KvFormat kv_format_by_name(const std::string& name);

/// Told how far the loading of a checkpoint is: 0 of `all` bytes when it begins, `all` when it is over, however it
/// ends.
/// By one thread at a time.
using LoadingObserver =
    std::function<void(const std::filesystem::path& checkpoint, std::uint64_t done, std::uint64_t all)>;

/// For which table weights are laid out, in which formats, and who is told of it.
struct LoadOptions {
  LoadOptions(const Kernels& kernels_, Quantization quantize_ = Quantization::none, KvFormat kv_ = KvFormat::f32)
      : kernels(kernels_), quantize(quantize_), kv(kv_) {}

  const Kernels& kernels;
  Quantization quantize;
  KvFormat kv;  // of the caches of the model
  LoadingObserver observer;  // may be empty
};

/// The same for another table.
LoadOptions with_kernels(const Kernels& kernels, const LoadOptions& like);

/// What a page is loaded from, while it is.
class WeightLoader {
 public:
  WeightLoader(const Checkpoint& from, const LoadOptions& as);
  ~WeightLoader();
  WeightLoader(const WeightLoader&) = delete;
  WeightLoader& operator=(const WeightLoader&) = delete;

  const Checkpoint& weights;
  const LoadOptions& options;

  void loaded(std::uint64_t bytes) const;  // more of them

 private:
  mutable std::uint64_t done_ = 0;
};

/// One matrix of a checkpoint.
struct NamedMatrix {
  std::string name;
  int outputs;
};

/// The format that a matrix is laid out in. `table`: it has one row per token.
Format packed_format(Format stored, int inputs, Quantization quantize, bool table);

/// A matrix of a layer, or several one below the other.
PackedMatrix load_matrix(const WeightLoader& from, const std::vector<NamedMatrix>& parts, int inputs);

/// A matrix with one row per token: an embedding or a head.
PackedMatrix load_table(const WeightLoader& from, const NamedMatrix& matrix, int inputs);

}  // namespace draftproof
