// SPDX-License-Identifier: MIT
// What each token has of its own for each layer, of Gemma 3n and 4.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ref/models/model.h"
#include "ref/models/transformer.h"

namespace draftproof {

/// Of one layer; P is the width of what a token has.
struct LayerEmbeddingWeights {
  PackedMatrix gate;        // [P][hidden], "per_layer_input_gate"
  PackedMatrix projection;  // [hidden][P], "per_layer_projection"
  std::vector<float> norm;  // [hidden], "post_per_layer_input_norm"
};

/// `prefix` is everything before "per_layer_input_gate".
LayerEmbeddingWeights load_layer_embedding(const WeightLoader& from, const TransformerConfig& config,
                                           const std::string& prefix);

class LayerEmbeddings {
 public:
  /// Loads the tables of a model that has them (TransformerConfig::layer_embedding); `tokens`: the rows of its own.
  LayerEmbeddings(const WeightLoader& from, const TransformerConfig& config, int tokens);

  /// Computes own = (norm(projection . x / sqrt(hidden)) + sqrt(P) * table[token]) / sqrt(2), layer by layer, of a pass
  /// whose hidden_states hold the embedding x. A token behind the table has the row of token 0.
  void compute(const TransformerPass& pass, std::span<const Segment> batch);

  /// projected = norm(projection . (GELU(gate . x) * own)) for x [rows][hidden]
  void mix(const TransformerPass& pass, int layer, const LayerEmbeddingWeights& weights, const float* x) const;

 private:
  int layers_ = 0;
  int width_ = 0;                       // P
  int tokens_ = 0;                      // rows of the table
  PackedMatrix table_;                  // [tokens][layers * P]
  PackedMatrix projection_;             // [layers * P][hidden]
  std::vector<float> projection_norm_;  // [P]
  std::vector<float> own_;              // [rows][layers * P]
  std::vector<Token> read_;             // the tokens of a pass
};

}  // namespace draftproof
