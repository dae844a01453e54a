// SPDX-License-Identifier: MIT
// A matrix W of a model with what a LoRA adapter adds to it:
//
//   merged[o][i] = round(W[o][i] + scale * (sum over k of left[o][k] * right[k][i]))
//
// The sum begins with 0, and k ascends. Every product and every sum is rounded to float; round() is to the format that
// W is stored in where that is f32, f16 or bf16, and else to bf16. So the bits depend on the numbers alone, and a
// matrix is what it would be if the merged model had been saved.
#pragma once

#include <cstdint>

#include "ref/formats/stored_tensor.h"

namespace draftproof {

/// A narrow matrix of an adapter.
struct LoraFactor {
  StoredTensor stored;
  bool transposed = false;  // its columns are stored as rows

  std::int64_t rows() const { return stored.shape[transposed ? 1 : 0]; }
  std::int64_t columns() const { return stored.shape[transposed ? 0 : 1]; }
};

struct LoraProduct {
  LoraFactor left;   // [outputs][rank]
  LoraFactor right;  // [rank][inputs]
  float scale = 1;
};

struct MergedMatrix {
  StoredTensor base;
  LoraProduct product;
};

/// Returns `base` with the product added. Throws Error, naming the tensors, when their shapes do not fit.
StoredTensor merged(const StoredTensor& base, const LoraProduct& product);

/// Returns the rows of a tensor that is merged. The factors are read when the first row is, and kept by the result.
WeightSource merged_rows(const StoredTensor& tensor, int outputs, int inputs);

}  // namespace draftproof
