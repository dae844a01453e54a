// SPDX-License-Identifier: MIT
#include "ref/models/layer_embeddings.h"

#include <cmath>
#include <cstring>

#include "kernels/packed_activations.h"
#include "kernels/threads.h"

namespace draftproof {

LayerEmbeddingWeights load_layer_embedding(const WeightLoader& from, const TransformerConfig& config,
                                           const std::string& prefix) {
  const int width = config.layer_embedding;
  const int hidden = config.hidden;
  return {load_matrix(from, {{prefix + "per_layer_input_gate.weight", width}}, hidden),
          load_matrix(from, {{prefix + "per_layer_projection.weight", hidden}}, width),
          load_norm(from, config, prefix + "post_per_layer_input_norm.weight", hidden)};
}

LayerEmbeddings::LayerEmbeddings(const WeightLoader& from, const TransformerConfig& config, int tokens)
    : layers_(config.depth()), width_(config.layer_embedding), tokens_(tokens) {
  const int all = layers_ * width_;
  const Placed whole(from, Holding::whole);  // rows are read by threads that work on others
  table_ = load_table(from, {"model.embed_tokens_per_layer.weight", tokens}, all);
  projection_ = load_matrix(from, {{"model.per_layer_model_projection.weight", all}}, config.hidden);
  projection_norm_ = load_norm(from, config, "model.per_layer_projection_norm.weight", width_);
}

void LayerEmbeddings::compute(const TransformerPass& pass, std::span<const Segment> batch) {
  TransformerScratch& s = pass.scratch;
  const int hidden = pass.config.hidden;
  const int all = layers_ * width_;
  reserve_rows(own_, pass.rows, all);
  read_.clear();
  for (const Segment& segment : batch) read_.insert(read_.end(), segment.tokens.begin(), segment.tokens.end());
  pack_activations(pass.kernels, projection_, s.hidden_states.data(), hidden, pass.rows, s.activations);
  matmul(pass.kernels, projection_, s.activations, own_.data(), all);
  const auto root = static_cast<float>(1 / std::sqrt(static_cast<double>(hidden)));
  const float token_scale = std::sqrt(static_cast<float>(width_));
  constexpr auto half_root = static_cast<float>(0.70710678118654752440);
  for_rows(pass.rows, 8.0 * pass.rows * all, [&](int begin, int end) {
    std::vector<float> of_token(static_cast<std::size_t>(all));
    for (int row = begin; row < end; ++row) {
      const std::span<float> own(own_.data() + static_cast<std::ptrdiff_t>(row) * all, of_token.size());
      for (float& value : own) value *= root;
      pass.kernels.rms_norm(own.data(), all, 1, layers_, width_, projection_norm_.data(), pass.config.epsilon,
                            own.data(), all);
      const Token token = read_[static_cast<std::size_t>(row)];
      table_.unpack_row(pass.kernels, token < tokens_ ? token : 0, of_token.data());
      for (std::size_t k = 0; k < own.size(); ++k) own[k] = (own[k] + of_token[k] * token_scale) * half_root;
    }
  });
}

void LayerEmbeddings::mix(const TransformerPass& pass, int layer, const LayerEmbeddingWeights& weights,
                          const float* x) const {
  TransformerScratch& s = pass.scratch;
  const int hidden = pass.config.hidden;
  const std::ptrdiff_t all = static_cast<std::ptrdiff_t>(layers_) * width_;
  pack_activations(pass.kernels, weights.gate, x, hidden, pass.rows, s.activations);
  matmul(pass.kernels, weights.gate, s.activations, s.gate_up.data(), 2 * width_);
  for (int row = 0; row < pass.rows; ++row) {
    std::memcpy(s.gate_up.data() + (2 * std::ptrdiff_t{row} + 1) * width_,
                own_.data() + row * all + std::ptrdiff_t{layer} * width_,
                static_cast<unsigned>(width_) * sizeof(float));
  }
  pass.kernels.gelu_multiply(s.gate_up.data(), pass.rows, width_, 0, width_, s.gated.data());
  pack_activations(pass.kernels, weights.projection, s.gated.data(), width_, pass.rows, s.activations);
  matmul(pass.kernels, weights.projection, s.activations, s.projected.data(), hidden);
  pass.normalize_projected(weights.norm);
}

}  // namespace draftproof
