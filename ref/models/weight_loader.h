// SPDX-License-Identifier: MIT
// Loads the matrices of a checkpoint and packs them row by row, so that memory never holds a second copy of a model.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/key_values.h"
#include "kernels/packed_matrix.h"
#include "ref/formats/checkpoint.h"

namespace draftproof {

/// The format that float matrices get on load. Matrices that are stored quantized stay as they are; so do norms, biases
/// and, for q8 and q4, matrices whose inputs are not a multiple of a quantization block.
/// f32: the same values; activations are not rounded, as bf16 weights have them rounded to bf16.
/// q8: q8_0. q4: q4_0 in layers; the embedding and the head q6_k, or q8_0 where their inputs are no multiple of 256.
enum class Quantization : std::uint8_t { none, f32, q8, q4 };

const char* name_of(Quantization quantize) noexcept;
/// "none", "f32", "q8" or "q4"; Error naming these for any other.
Quantization quantization_by_name(const std::string& name);

/// Throws Error, naming what there is.
KvFormat kv_format_by_name(const std::string& name);

/// Returns the format that a config says its weights have, bf16 where it does not say.
Format stated_format(const Json& config);

/// Receives the progress of loading a checkpoint: 0 of `all` bytes at the start, `all` at the end, also after an error.
/// Called by one thread at a time.
using LoadingObserver =
    std::function<void(const std::filesystem::path& checkpoint, std::uint64_t done, std::uint64_t all)>;

/// How to load a model: kernel table, weight and KV formats, progress callback.
struct LoadOptions {
  LoadOptions(const Kernels& kernels_, Quantization quantize_ = Quantization::none, KvFormat kv_ = KvFormat::bf16)
      : kernels(kernels_), quantize(quantize_), kv(kv_) {}

  const Kernels& kernels;
  Quantization quantize;
  KvFormat kv;                // of the caches of the model
  bool requantize = false;    // quantize also matrices that are stored quantized, where that takes fewer bytes
  bool small_tables = false;  // by q4, the embedding and the LM head also take 4 bits, not 6
  bool long_context = false;  // longrope has its long factors, for texts behind its original context, too
  int layers = 0;             // load the first so many layers only; 0: all
  int head_tokens = 0;        // load the LM head of the first so many tokens only, as a draft may; 0: of all
  LoadingObserver observer;   // may be empty
  Ranks* ranks = nullptr;     // that hold the model together; nullptr: it is here whole
};

/// Returns how many tokens the LM head has, of a vocabulary.
int tokens_of_head(const LoadOptions& options, int vocabulary);

/// Returns the same options for another kernel table.
LoadOptions with_kernels(const Kernels& kernels, const LoadOptions& like);

/// Whether ranks have some outputs each of a matrix, or all have all of it.
enum class Holding : std::uint8_t { cut, whole };

/// What weights take, and the widest rows that they are multiplied with.
struct WeightBytes {
  std::map<std::string, std::uint64_t> by_format;
  std::uint64_t values = 0;  // that they are
  std::array<int, activation_formats> widest = {};
};

/// The source of a model implementation while it is being loaded: checkpoint, options and progress. It remembers what
/// was asked for, so that a tensor that nobody knows (a bias, a scale, a second LM head) is refused and never ignored.
class WeightLoader {
 public:
  /// count: reads and packs nothing and tells no observer, but adds up the bytes of what it would return. Matrices have
  /// shape and format only, and abort where they are used; floats are empty. Tensors that are missing or do not fit
  /// take nothing, and finish() accepts them: loading says what is wrong. Of a config without weights every tensor that
  /// is asked for counts, in the format that the config states.
  enum class Mode : std::uint8_t { load, count };

  WeightLoader(const Checkpoint& from, const LoadOptions& as, Mode mode = Mode::load);
  ~WeightLoader();
  WeightLoader(const WeightLoader&) = delete;
  WeightLoader& operator=(const WeightLoader&) = delete;

  const Checkpoint& weights;
  const LoadOptions& options;

  bool counts() const noexcept { return mode_ == Mode::count; }
  /// What was loaded or counted so far.
  const WeightBytes& bytes() const noexcept { return bytes_; }

  /// Checkpoint::floats; zeros for a tensor that is missing.
  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// Checkpoint::weight; zeros for a tensor that is missing, and for every one after that.
  WeightSource weight(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// Packs a matrix whose rows need not be in the checkpoint.
  PackedMatrix pack(std::span<const MatrixSource> parts) const;
  /// Says how matrices are held from now on, and returns how they were; at first they are cut (Placed).
  Holding hold(Holding next) const noexcept { return std::exchange(holding_, next); }

  /// Whether the tensor is only counted and takes nothing.
  bool leaves_out(const std::string& name, const std::vector<std::int64_t>& shape) const;

  void loaded(const std::string& name) const;  // or known not to be needed

  /// Ends the loading. Throws Error, naming them, when tensors were missing, or when one was not loaded whose name does
  /// not begin with one of `unused`.
  void finish(std::span<const std::string> unused = {}) const;

 private:
  std::size_t note_missing(const std::string& name, const std::vector<std::int64_t>& shape) const;
  void tell(std::uint64_t done) const;

  Mode mode_;
  mutable WeightBytes bytes_;
  mutable std::uint64_t done_ = 0;
  mutable std::set<std::string> loaded_;
  mutable std::vector<std::string> missing_;  // as Checkpoint::expected says it
  mutable std::uint64_t missing_values_ = 0;
  mutable int left_out_ = 0;  // or counted of a config without weights
  mutable Holding holding_ = Holding::cut;
};

/// What is loaded while it lives is held so.
class Placed {
 public:
  Placed(const WeightLoader& from, Holding as) : from_(from), before_(from.hold(as)) {}
  ~Placed() { from_.hold(before_); }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

 private:
  const WeightLoader& from_;
  Holding before_;
};

/// One matrix of a checkpoint: a tensor, or the rows first, first + step, ... of a tensor of the shape `within`.
struct NamedMatrix {
  std::string name;
  int outputs;
  int first = 0;
  std::vector<std::int64_t> within = {};
  int step = 1;
  /// The tensor is [..][inputs][rows] in place of [..][rows][inputs], as `within` says. One that is quantized is packed
  /// as floats, or as the options say.
  bool transposed = false;
  int before = 0;  // of one that is transposed: inputs that are left out before its first one
};

/// Returns the rows of `matrix` in its tensor. Those of one that is transposed are put together when the first of them
/// is read, and kept by the result.
WeightSource rows_of(WeightSource tensor, const NamedMatrix& matrix, int inputs);

/// Returns the format that a matrix is packed in. `table`: the matrix has one row per token.
Format packed_format(Format stored, int inputs, const LoadOptions& options, bool table);

/// Loads a matrix of a layer, or several whose outputs follow each other.
PackedMatrix load_matrix(const WeightLoader& from, const std::vector<NamedMatrix>& parts, int inputs);

/// Loads a matrix with one row per token: an embedding or an LM head.
PackedMatrix load_table(const WeightLoader& from, const NamedMatrix& matrix, int inputs);

}  // namespace draftproof
