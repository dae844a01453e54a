// SPDX-License-Identifier: MIT
// Models of real shapes with random weights: all that speed depends on. Every value is a function of seed, tensor, row
// and column, so equal seeds give equal bytes, however the work is divided.
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
};

/// Errors name what there is.
const SyntheticShape& synthetic_shape(const std::string& name);
Format format_named(const std::string& name);
std::string shape_names();
std::string format_names();

/// As GGUF files name and shape it; a vector has one output. Its values are bell-shaped with a deviation of 0.02.
struct SyntheticTensor {
  std::string name;
  Format format;
  int outputs;
  int inputs;
  std::uint64_t key;  // of its values
  float mean = 0;     // norms lie around 1
};

/// All of them, in the order of the file. Head and embedding are one. Beside weights of four and five bits it has six,
/// as llama-quantize writes it.
std::vector<SyntheticTensor> synthetic_tensors(const SyntheticShape& shape, Format format, std::uint64_t seed);

/// Rows [first, first + rows), row_bytes(format, inputs) each.
void synthesize(const SyntheticTensor& tensor, int first, int rows, void* to);

}  // namespace draftproof
