// SPDX-License-Identifier: MIT
// A decoder-only transformer without its layers: embedding, caches, taps, final norm, LM head. A model implementation
// derives from it, loads the weights of its layers, and implements one layer in `layer`.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ref/models/model.h"
#include "ref/models/transformer.h"

namespace draftproof {

class CausalTransformer : public Model, public Embeddings {
 public:
  int vocabulary() const override { return config_.vocabulary; }
  int context() const override { return config_.context; }
  int layers() const override { return config_.layers; }
  int hidden() const override { return config_.hidden; }
  const Embeddings* embeddings() const override { return this; }

  std::unique_ptr<Cache> new_cache(int capacity, int max_pending_rows) const override;
  void forward(std::span<const Segment> batch, Outputs& outputs) override;
  void embed(std::span<const Token> tokens, float* rows) const override;
  bool unembed(const float* rows, int count, PackedActivations& scratch, float* logits) const override;

 protected:
  /// Loads the embedding, LM head, final norm and the weights that every layer has ("model.layers.0." and so on).
  /// `also_in_layers` and `also` name the other tensors that the implementation loads; any further one is an Error.
  CausalTransformer(const WeightLoader& from, const Json& config, TransformerConfig read,
                    std::span<const char* const> also_in_layers, const std::set<std::string>& also = {});

  /// Computes layer `i` for the rows of `pass`, whose `kv` and `visible` ranges are set.
  virtual void layer(const TransformerPass& pass, int i) const = 0;

  const TransformerConfig& config() const noexcept { return config_; }
  const TransformerLayer& weights(int i) const noexcept { return layers_[i]; }
  Rope& rope() noexcept { return rope_; }
  static std::string prefix(int i) { return "model.layers." + std::to_string(i) + "."; }

 private:
  void read(std::span<const Segment> batch, Outputs& outputs);
  void begin_layer(std::span<const Segment> batch, int layer);
  void tap(std::span<const Segment> batch, int layer, Outputs& outputs) const;
  void head(std::span<const Segment> batch, Outputs& outputs);

  const Kernels& kernels_;
  KvFormat kv_;
  TransformerConfig config_;
  std::string origin_;
  Rope rope_;
  PackedMatrix embedding_;
  PackedMatrix head_;
  bool tied_ = false;
  std::vector<TransformerLayer> layers_;
  std::vector<float> norm_;
  TransformerScratch scratch_;
  std::vector<Placement> placements_;
};

}  // namespace draftproof
