// SPDX-License-Identifier: MIT
// What the config of a decoder says, and its tensors under one set of names: read once, for every float64 twin. All
// that follows from tensors (biases, norms, experts) a twin sees there.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"

namespace draftproof::twin {

/// The window of a layer that sees everything before it.
inline constexpr int unlimited = std::numeric_limits<int>::max();

/// A RoPE: its base, and the block that says how it is stretched, where one does.
struct RopeFacts {
  double theta = 10000;
  std::optional<Json> block = {};
  bool backwards = false;  // pairs turn the other way
};

/// Queries are multiplied by 1 + beta * ln(1 + floor((position + ahead) / step)).
struct GrowthFacts {
  double beta = 0;
  std::int64_t step = 1;
  int ahead = 0;
};

struct LayerFacts {
  int window = unlimited;
  bool chunked = false;  // it sees the chunk, as long as a window, that a row is in
  bool grows = false;    // by DecoderFacts::growth
  int rope = 0;          // of DecoderFacts::ropes; -1: q and k are not turned
};

/// Of multi-head latent attention.
struct LatentFacts {
  int rank = 0;                             // of the latent vector; 0: attention is another one
  int turned = 0, unturned = 0, value = 0;  // of a head's query and value
  double epsilon = 0;                       // of its norms
};

struct DecoderFacts {
  int heads = 0, kv_heads = 0, head_dim = 0;
  int turned = 0;            // dimensions of a head
  bool interleaved = false;  // the checkpoint has RoPE turn neighbors
  double epsilon = 0;
  bool layer_norm = false;     // norms subtract the mean
  bool gelu = false;           // the activation of MLPs is GELU; else of those without a gate the square of ReLU
  double attention_scale = 0;  // of scores; 0: 1 / sqrt(head_dim)
  bool relu2 = false;          // the gate's activation is the square of ReLU
  double embedding_scale = 1;
  bool embedding_norm = false;  // the final norm is also that of the embedding
  double residual_scale = 1;
  double logit_scale = 1;
  double logit_cap = 0;                                   // 0: none
  int chosen = 0;                                         // of experts
  int state_groups = 0;                                   // of heads of a state space layer
  std::array<double, 5> state_factors = {1, 1, 1, 1, 1};  // of what such a layer projects: z, x, B, C, steps
  bool norm_before_gate = false;                          // in such a layer
  double state_share = 1, attention_share = 1;            // what mixers side by side give is multiplied with
  double mlp_share = 1, gate_factor = 1;                  // the same of the MLP; of its gates
  bool normalized = false;
  double routed_scale = 1;                    // of the weights of experts
  bool sigmoid_scores = false;                // of a router; else it has a softmax
  bool weighted_inputs = false;               // of experts; else it is their outputs that are weighed
  int groups = 1, groups_chosen = 1;          // of experts
  int best_of_group = 2;                      // experts whose scores add up to that of a group
  double sum_added = 0, sum_min = 0;          // to the sum of the chosen scores; what it is at least
  double swiglu_alpha = 0, swiglu_limit = 0;  // of a clamped SwiGLU; 0: it is a plain one
  LatentFacts latent;
  GrowthFacts growth;
  std::vector<RopeFacts> ropes;
  std::vector<LayerFacts> layers;
};

/// The norms of a layer, by name; one that it does not have is empty.
struct LayerNorms {
  std::string attention, attended, mlp, mlp_out;
  bool parallel = false;  // the MLP reads what attention reads
};
/// `has(name)`: whether there is a tensor `name`.weight.
template <class Has>
LayerNorms layer_norms(const std::string& prefix, const Has& has) {
  const auto found = [&](const char* name) { return has(prefix + name) ? prefix + name : ""; };
  LayerNorms norms = {found("input_layernorm"), "", found("post_attention_layernorm"), ""};
  norms.parallel = norms.mlp.empty();
  if (has(prefix + "post_feedforward_layernorm")) {  // they are behind attention and MLP, as in Gemma
    norms.attended = norms.mlp;
    norms.mlp = found("pre_feedforward_layernorm");
    norms.mlp_out = found("post_feedforward_layernorm");
  }
  return norms;
}

/// `config` is that of the text model.
DecoderFacts decoder_facts(const Json& config);

struct NamedTensor {
  std::vector<float> values;
  int width = 0;  // of a row
  Format format = Format::f32;
};

/// Returns the tensors with the names of Llama, without "model.": joined projections apart, experts one by one, pairs
/// that RoPE turns half a head apart. `config` is that of the text model.
std::map<std::string, NamedTensor> decoder_tensors(const Checkpoint& checkpoint, const Json& config);

}  // namespace draftproof::twin
