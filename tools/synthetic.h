// SPDX-License-Identifier: MIT
// Models of real shapes with random weights, for measuring speed. Every value is a function of seed, tensor, row and
// column, so equal seeds give equal bytes, however the work is divided among threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/formats.h"

namespace draftproof {

struct SyntheticShape {
  const char* name;
  const char* architecture;  // as GGUF names it
  int layers;
  int hidden;
  int intermediate;
  int heads;
  int kv_heads;
  int head_dim;
  int vocabulary;
  int context;
  float rope_base;
  float epsilon;
  int experts = 0;  // instead of an MLP, of `intermediate` each
  int experts_chosen = 0;
};

/// Formats that a GGUF file stores, or also those that only memory holds.
enum class FormatChoice { stored, all };

/// These throw Error for a name that does not exist; the message lists the names.
const SyntheticShape& synthetic_shape(const std::string& name);
Format format_named(const std::string& name, FormatChoice among);
std::string shape_names();
std::string format_names(FormatChoice among);

/// A tensor with name and shape as in GGUF files; a vector has one output. Its values are approximately normal with a
/// standard deviation of 0.02.
struct SyntheticTensor {
  std::string name;
  Format format;
  int outputs;  // of all matrices
  int inputs;
  std::uint64_t key;  // seed of its values
  float mean = 0;     // 1 for the weights of norms
  int matrices = 1;   // experts
};

/// Returns all tensors in the order of the file. LM head and embeddings are tied; they have six bits beside weights of
/// four and five bits, as llama-quantize writes them.
std::vector<SyntheticTensor> synthetic_tensors(const SyntheticShape& shape, Format format, std::uint64_t seed);

/// Writes rows [first, first + rows), row_bytes(format, inputs) each, to `to`.
void synthesize(const SyntheticTensor& tensor, int first, int rows, void* to);

}  // namespace draftproof
