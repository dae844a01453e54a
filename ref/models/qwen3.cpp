// SPDX-License-Identifier: MIT
#include "ref/models/qwen3.h"

#include <algorithm>
#include <cstring>

#include "ref/base/error.h"
#include "ref/base/require.h"
#include "ref/models/transformer.h"

namespace draftproof {
namespace {

class Qwen3 final : public Model, public Embeddings {
 public:
  Qwen3(const Checkpoint& weights, const Json& config, const Kernels& kernels)
      : kernels_(kernels),
        config_(read_transformer_config(config)),
        origin_(weights.path().string()),
        rope_(config_.rope_theta, config_.head_dim) {
    if (const auto cap = config.find("final_logit_softcapping")) cap->fail("soft-capped logits are not implemented");
    const auto one = [](std::string name, int outputs) { return std::vector<NamedMatrix>{{std::move(name), outputs}}; };
    embedding_ = load_matrix(weights, one("model.embed_tokens.weight", config_.vocabulary), config_.hidden, kernels_);
    for (int i = 0; i < config_.layers; ++i) {
      layers_.push_back(load_transformer_layer(weights, config_, "model.layers." + std::to_string(i) + ".", kernels_));
    }
    norm_ = weights.floats("model.norm.weight", {config_.hidden});

    // A tied config that ships a head anyway is tied all the same: the reference implementation ties after loading.
    const auto tie = config.find("tie_word_embeddings");
    tied_ = tie ? tie->boolean() : !weights.has("lm_head.weight");
    if (!tied_) head_ = load_matrix(weights, one("lm_head.weight", config_.vocabulary), config_.hidden, kernels_);
    refuse_other_tensors(weights, config_, "model.layers.",
                         {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"});
  }

  int vocabulary() const override { return config_.vocabulary; }
  int context() const override { return config_.context; }
  int layers() const override { return config_.layers; }
  int hidden() const override { return config_.hidden; }
  const Embeddings* embeddings() const override { return this; }

  std::unique_ptr<Cache> new_cache(int capacity, int horizon_max) const override {
    std::vector<std::unique_ptr<LayerCache>> layers;
    for (const int window : config_.windows) {
      layers.push_back(
          std::make_unique<AttentionCache>(config_.kv_heads, config_.head_dim, window, capacity, horizon_max));
    }
    return std::make_unique<Cache>(std::move(layers), capacity, horizon_max);
  }

  void forward(const Batch& batch, Cache& cache, Outputs& outputs) override {
    with_workers([&] { read(batch, cache, outputs); });
  }

  void embed(std::span<const Token> tokens, float* rows) const override {
    for (const Token token : tokens) {
      REQUIRE(token >= 0 && token < config_.vocabulary, "a token lies in the vocabulary");
      embedding_.unpack_row(kernels_, token, rows);
      rows += config_.hidden;
    }
  }

  void unembed(const float* rows, int count, Operands& scratch, float* logits) const override {
    const PackedMatrix& head = tied_ ? embedding_ : head_;
    prepare(kernels_, head, rows, config_.hidden, count, scratch);
    matmul(kernels_, head, scratch, logits, config_.vocabulary);
  }

 private:
  void read(const Batch& batch, Cache& cache, Outputs& outputs) {
    const int rows = static_cast<int>(batch.tokens.size());
    const int position = cache.end();
    scratch_.reserve(config_, rows, cache.capacity());
    rope_.angles(position, rows, scratch_.cosine, scratch_.sine);
    embed(batch.tokens, scratch_.stream.data());
    outputs.features.resize(batch.tokens.size() * batch.taps.size() * static_cast<std::size_t>(config_.hidden));

    const TransformerPass pass = {kernels_, config_, scratch_, position, rows};
    for (int i = 0; i < config_.layers; ++i) {
      const TransformerLayer& layer = layers_[static_cast<std::size_t>(i)];
      auto& memory = cache.layer<AttentionCache>(i);
      for (int row = 0; row < rows; ++row) {
        scratch_.visible[static_cast<std::size_t>(row)] = {memory.first_visible(position + row), position + row + 1};
      }
      pass.project(layer);
      norm_and_turn(pass, layer);
      pass.attend_and_feed(layer, memory);
      tap(batch, i, outputs);
    }
    cache.wrote(rows);

    const int wanted = rows - batch.logits_from;
    REQUIRE(batch.logits_from >= 0 && wanted >= 0, "logits are asked for rows of the batch");
    outputs.logits.resize(static_cast<std::size_t>(wanted) * static_cast<std::size_t>(config_.vocabulary));
    if (wanted == 0) return;
    kernels_.rms_norm(scratch_.stream.data() + static_cast<std::ptrdiff_t>(batch.logits_from) * config_.hidden,
                      config_.hidden, wanted, 1, config_.hidden, norm_.data(), config_.epsilon, scratch_.normed.data(),
                      config_.hidden);
    unembed(scratch_.normed.data(), wanted, scratch_.operands, outputs.logits.data());
    if (!all_numbers(outputs.logits)) throw Error(origin_ + ": the model computes NaN logits; its weights are damaged");
  }

  /// Copies the stream after layer `layer` into every tap that asks for it.
  void tap(const Batch& batch, int layer, Outputs& outputs) const {
    const auto width = static_cast<std::size_t>(config_.hidden);
    for (std::size_t t = 0; t < batch.taps.size(); ++t) {
      if (batch.taps[t] != layer) continue;
      for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
        std::memcpy(outputs.features.data() + (row * batch.taps.size() + t) * width,
                    scratch_.stream.data() + row * width, width * sizeof(float));
      }
    }
  }

  const Kernels& kernels_;
  TransformerConfig config_;
  std::string origin_;
  Rope rope_;
  PackedMatrix embedding_;
  PackedMatrix head_;
  bool tied_ = false;
  std::vector<TransformerLayer> layers_;
  std::vector<float> norm_;
  TransformerScratch scratch_;
};

}  // namespace

std::unique_ptr<Model> load_qwen3(const std::filesystem::path& folder, const Json& config, const Kernels& kernels) {
  const Checkpoint weights(folder);
  return std::make_unique<Qwen3>(weights, config, kernels);
}

}  // namespace draftproof
