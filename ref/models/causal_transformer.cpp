// SPDX-License-Identifier: MIT
#include "ref/models/causal_transformer.h"

#include <cstring>
#include <utility>

#include "kernels/packed_activations.h"
#include "kernels/packed_matrix.h"
#include "kernels/threads.h"
#include "ref/base/error.h"
#include "ref/base/require.h"

namespace draftproof {

CausalTransformer::CausalTransformer(const WeightLoader& from, const Json& config, TransformerConfig read,
                                     std::span<const char* const> also_in_layers, const std::set<std::string>& also)
    : kernels_(from.options.kernels),
      kv_(from.options.kv),
      config_(std::move(read)),
      origin_(from.weights.path().string()),
      rope_(config_) {
  if (const auto cap = config.find("final_logit_softcapping")) cap->fail("soft-capped logits are not implemented");
  norm_ = from.weights.floats("model.norm.weight", {config_.hidden});
  std::set<std::string> known = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
  known.insert(also.begin(), also.end());
  refuse_other_tensors(from.weights, config_, "model.layers.", also_in_layers, std::move(known));
  embedding_ = load_table(from, {"model.embed_tokens.weight", config_.vocabulary}, config_.hidden);
  for (int i = 0; i < config_.layers; ++i) layers_.push_back(load_transformer_layer(from, config_, prefix(i)));

  // A head in the file is the head, whatever the config says, as the reference implementation has it; one of the same
  // bytes as the embedding is kept once.
  const auto tie = config.find("tie_word_embeddings");
  tied_ = !tie || tie->boolean();
  if (from.weights.has("lm_head.weight")) tied_ = from.weights.same("lm_head.weight", "model.embed_tokens.weight");
  if (!tied_) head_ = load_table(from, {"lm_head.weight", config_.vocabulary}, config_.hidden);
}

std::unique_ptr<Cache> CausalTransformer::new_cache(int capacity, int max_pending_rows) const {
  std::vector<std::unique_ptr<LayerCache>> layers;
  for (const int window : config_.windows) {
    layers.push_back(
        std::make_unique<AttentionCache>(config_.kv_heads, config_.head_dim, window, capacity, max_pending_rows, kv_));
  }
  return std::make_unique<Cache>(std::move(layers), capacity, max_pending_rows);
}

void CausalTransformer::forward(const Batch& batch, Cache& cache, Outputs& outputs) {
  with_workers([&] { read(batch, cache, outputs); });
}

void CausalTransformer::embed(std::span<const Token> tokens, float* rows) const {
  for (const Token token : tokens) {
    REQUIRE(token >= 0 && token < config_.vocabulary, "a token lies in the vocabulary");
    embedding_.unpack_row(kernels_, token, rows);
    rows += config_.hidden;
  }
}

bool CausalTransformer::unembed(const float* rows, int count, PackedActivations& scratch, float* logits) const {
  const PackedMatrix& head = tied_ ? embedding_ : head_;
  pack_activations(kernels_, head, rows, config_.hidden, count, scratch);
  return matmul_of_numbers(kernels_, head, scratch, logits, config_.vocabulary);
}

void CausalTransformer::read(const Batch& batch, Cache& cache, Outputs& outputs) {
  const int rows = static_cast<int>(batch.tokens.size());
  const int position = batch.depths.empty() ? cache.end() : cache.length();
  scratch_.lay_out(config_, rows, cache.capacity(), position, batch.depths);
  rope_.angles(scratch_.positions, scratch_.cosine, scratch_.sine);
  embed(batch.tokens, scratch_.hidden_states.data());
  outputs.features.resize(batch.tokens.size() * batch.taps.size() * static_cast<std::size_t>(config_.hidden));

  const TransformerPass pass = {kernels_, config_, scratch_, rows};
  for (int i = 0; i < config_.layers; ++i) {
    auto& kv = cache.layer<AttentionCache>(i);
    for (int row = 0; row < rows; ++row) {
      const int position = scratch_.positions[row];
      scratch_.visible[row] = {kv.first_visible(position), position + 1};
    }
    layer(pass, i, kv);
    tap(batch, i, outputs);
  }
  cache.wrote(rows);

  const int wanted = rows - batch.logits_from;
  REQUIRE(batch.logits_from >= 0 && wanted >= 0, "logits are asked for rows of the batch");
  outputs.logits.resize(static_cast<std::size_t>(wanted) * config_.vocabulary);
  if (wanted == 0) return;
  kernels_.rms_norm(scratch_.hidden_states.data() + static_cast<std::ptrdiff_t>(batch.logits_from) * config_.hidden,
                    config_.hidden, wanted, 1, config_.hidden, norm_.data(), config_.epsilon, scratch_.normed.data(),
                    config_.hidden);
  if (!unembed(scratch_.normed.data(), wanted, scratch_.activations, outputs.logits.data())) {
    throw Error(origin_ + ": the model computes NaN logits; its weights are damaged");
  }
}

/// Copies the stream after layer `layer` into every tap that asks for it.
void CausalTransformer::tap(const Batch& batch, int layer, Outputs& outputs) const {
  const auto width = static_cast<std::size_t>(config_.hidden);
  for (std::size_t t = 0; t < batch.taps.size(); ++t) {
    if (batch.taps[t] != layer) continue;
    for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
      std::memcpy(outputs.features.data() + (row * batch.taps.size() + t) * width,
                  scratch_.hidden_states.data() + row * width, width * sizeof(float));
    }
  }
}

}  // namespace draftproof
