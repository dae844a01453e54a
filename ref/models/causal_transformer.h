// SPDX-License-Identifier: MIT
// A decoder-only transformer without its layers: embedding, caches, taps, final norm, LM head. A model implementation
// derives from it, loads the weights of its layers, and implements one layer in `layer`.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ref/models/model.h"
#include "ref/models/transformer.h"

namespace draftproof {

/// What is outside of the layers.
struct TensorNames {
  const char* embedding = "model.embed_tokens.weight";
  const char* norm = "model.norm.weight";
};

class CausalTransformer : public Model, public Embeddings {
 public:
  int vocabulary() const override { return config_.vocabulary; }
  int context() const override { return config_.context; }
  int layers() const override { return config_.depth(); }
  int hidden() const override { return config_.hidden; }
  const Embeddings* embeddings() const override { return this; }
  const TransformerConfig* transformer() const override { return &config_; }

  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override;
  void forward(std::span<const Segment> batch, Outputs& outputs) override;
  void embed(std::span<const Token> tokens, float* rows) const override;
  void normalize(const float* rows, int count, float* normed) const override;
  bool unembed(const float* rows, int count, PackedActivations& scratch, float* logits) const override;
  void head_row(Token token, float* row) const override;
  void attend(int layer, const AttentionShape& shape, int stride, std::span<const LentRows> texts,
              AttentionScratch& scratch) const override;

 protected:
  /// Loads the embedding, LM head and final norm.
  CausalTransformer(const WeightLoader& from, TransformerConfig config, const TensorNames& names = {});

  /// Called before the first layer, when hidden_states hold the embedding of the tokens of the batch.
  virtual void begin(const TransformerPass&, std::span<const Segment>) {}

  /// Called behind the last layer: hidden_states become what the final norm reads.
  virtual void end(const TransformerPass&) {}

  /// Computes layer `i` for the rows of `pass`.
  virtual void layer(const TransformerPass& pass, int i) = 0;

  const TransformerConfig& config() const noexcept { return config_; }
  Rope& rope(int i) { return config_.ropes.at(static_cast<std::size_t>(i)); }
  static std::string prefix(int i) { return "model.layers." + std::to_string(i) + "."; }

 private:
  void read(std::span<const Segment> batch, Outputs& outputs);
  void tap(std::span<const Segment> batch, int layer, Outputs& outputs) const;
  void head(std::span<const Segment> batch, Outputs& outputs);
  const PackedMatrix& head_matrix() const noexcept { return tied_ ? embedding_ : head_; }

  const Kernels& kernels_;
  KvFormat kv_;
  Ranks* ranks_;
  TransformerConfig config_;
  std::string origin_;
  PackedMatrix embedding_;
  PackedMatrix head_;
  bool tied_ = false;  // whether the embedding is the head
  int head_tokens_;    // rows of the head; other tokens are never proposed
  std::vector<float> norm_;
  std::vector<float> head_bias_;
  TransformerScratch scratch_;
  std::vector<Placement> placements_;
};

}  // namespace draftproof
