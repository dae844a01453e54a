// SPDX-License-Identifier: MIT
// Decoder-only transformers of attention and MLPs, or experts. What their layers are made of is in their
// TransformerConfig; three orders of norms, each a body of its own, cover most architectures. An architecture has its
// description, the names of its tensors, and one of the functions below.
#pragma once

#include <memory>

#include "ref/models/experts.h"
#include "ref/models/model.h"
#include "ref/models/transformer_config.h"
#include "ref/models/weight_loader.h"

namespace draftproof {

/// What follows "model.layers.N.". The norms of a body that has no such norm are not read.
struct DecoderNames {
  const char* attention_norm = "input_layernorm";
  const char* attended_norm = "post_attention_layernorm";
  const char* mlp_norm = "post_attention_layernorm";
  const char* mlp_out_norm = "post_feedforward_layernorm";
  const char* output = "o_proj";  // behind attention
  const char* mlp_block = "mlp.";
  const char* up = "mlp.up_proj";  // of MLPs without a gate
  const char* down = "mlp.down_proj";
  const char* experts_block = "mlp.";
  ExpertNames experts = {};
  const char* final_norm = "model.norm.weight";
};

/// x += attention(norm(x)); x += MLP(norm(x))
std::unique_ptr<Model> load_pre_norm_decoder(const WeightLoader& from, const TransformerConfig& config,
                                             const DecoderNames& names);
/// The same with the names of Llama.
std::unique_ptr<Model> load_pre_norm_decoder(const WeightLoader& from, const TransformerConfig& config);
/// x += norm(attention(x)); x += norm(MLP(x))
std::unique_ptr<Model> load_post_norm_decoder(const WeightLoader& from, const TransformerConfig& config,
                                              const DecoderNames& names);
/// x += norm(attention(norm(x))); x += norm(MLP(norm(x)))
std::unique_ptr<Model> load_sandwich_decoder(const WeightLoader& from, const TransformerConfig& config,
                                             const DecoderNames& names);
/// x += attention(norm(x)) + MLP(norm(x)), the same norm
std::unique_ptr<Model> load_parallel_decoder(const WeightLoader& from, const TransformerConfig& config,
                                             const DecoderNames& names);

}  // namespace draftproof
