// SPDX-License-Identifier: MIT
// A family of targets in the float64 twin: what one implementation covers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "oracle/twin/matrix.h"
#include "oracle/twin/weights.h"
#include "ref/base/token.h"

namespace draftproof::twin {

/// What a layer keeps of the rows before.
struct LayerPast {
  Matrix keys, values;         // of attention, one row per position
  Matrix inputs;               // of a recurrent layer's convolution, the last rows
  std::vector<Matrix> states;  // of a recurrent layer, [value head]: [key dimension][value dimension]
};

struct TextPast {
  int positions = 0;
  std::vector<LayerPast> layers;
};

class TwinFamily {
 public:
  virtual ~TwinFamily() = default;
  /// Appends tokens to the text that `past` is of. Returns the logits of the last one's row.
  virtual Row read(std::span<const Token> tokens, TextPast& past) const = 0;
};

/// Returns the rows of the embedding.
Matrix embedded(const Weight& table, std::span<const Token> tokens);

/// All but Gemma (decoder.cpp). `weights` outlives it.
std::unique_ptr<TwinFamily> decoder_family(const TwinWeights& weights);
/// Gemma 3n (gemma3n.cpp). `weights` outlives it.
std::unique_ptr<TwinFamily> gemma3n_family(const TwinWeights& weights);
/// Gemma 2, 3 and 4 (gemma.cpp). `weights` outlives it.
std::unique_ptr<TwinFamily> gemma_family(const TwinWeights& weights);

}  // namespace draftproof::twin
