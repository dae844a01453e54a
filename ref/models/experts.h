// SPDX-License-Identifier: MIT
// A mixture of experts: a row goes through the few MLPs that a router chooses for it, and their outputs are weighed.
//
// Routing of a row: p = the softmax of the router's logits, in double (math64.h), summed by ascending id, or the
// sigmoid of each. Chosen are the `chosen` largest logits or, where a bias is added, the largest p + bias in double; of
// equal ones the smaller id. Where experts are in groups, first the groups are chosen whose two largest have the
// largest sum or, in DeepSeek V2, whose largest is largest, of equal ones the first. An expert's weight is its p, where
// they are normalized divided by the sum of the chosen p by ascending id, plus `sum_added` and at least `sum_min`, in
// some architectures times a scale, rounded to float once.
//
// The output of a row: y = 0, then y = y + weight * expert(x) for the chosen by ascending id, product and sum rounded;
// in some architectures y = y + expert(weight * x).
// Some architectures have a shared expert, which every row goes through: y = y + sigmoid(gate . x) * shared(x) at the
// end, the sigmoid in double and rounded once, or without a gate y = y + shared(x).
//
// Latent experts read down . x, and what they add up to is multiplied with up before that.
//
// The rows that chose an expert are gathered and go through it together, so experts that no row chose are not read;
// by the row law that changes no bit.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ref/models/transformer.h"

namespace draftproof {

struct ExpertsWeights {
  PackedMatrix latent_down, latent_up;  // [latent][hidden], [hidden][latent]; of latent experts
  PackedMatrix router;                  // [count][hidden]
  std::vector<float> router_bias;       // [count]
  std::vector<float> choice_bias;       // [count]
  std::vector<MlpWeights> experts;      // of ranks each has some gates and some outputs of all
  Ranks* ranks = nullptr;
  MlpWeights shared;         // of a layer that has it
  PackedMatrix shared_gate;  // [1][hidden], where it has one
};

/// How the tensors of one layer's experts are called.
struct ExpertNames {
  const char* router = "gate.weight";
  const char* router_bias = "gate.bias";
  const char* choice_bias = "gate.e_score_correction_bias";
  const char* experts = "experts.";
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
  const char* joined = "gate_up_proj";  // of all, gates and ups
  const char* shared = "shared_expert.";
  const char* latent_down = "fc1_latent_proj.weight";
  const char* latent_up = "fc2_latent_proj.weight";
  bool interleaved = false;  // what is joined has the gates at even places and the ups at odd ones
  bool transposed = false;   // tensors of all experts that do not end in ".weight" are [experts][inputs][outputs]
};

struct ExpertFields {
  const char* count = "";  // "": num_local_experts or num_experts
  const char* chosen = "num_experts_per_tok";
};

/// Reads the number of experts, how many of them a row chooses, and their size, which is in `intermediate`.
Experts read_experts(const Json& config, std::string_view intermediate, const ExpertFields& fields = {});

struct GroupedRouterFields {
  const char* normalized = "norm_topk_prob";
  const char* groups = "n_group";
  const char* groups_chosen = "topk_group";
  const char* chosen = "num_experts_per_tok";
  const char* shared = "n_shared_experts";
};

/// Reads what a router like that of DeepSeek V3 has: sigmoids, a bias to choose by, groups, a scale, and shared experts
/// without a gate, so many times as large as one.
void read_grouped_router(const Json& config, Experts& to, const GroupedRouterFields& fields = {});

/// Reads the groups. Throws Error, naming the field, where they leave no choice.
void read_groups(const Json& config, Experts& to, const GroupedRouterFields& fields = {});

/// Gives it a shared expert without a gate, as many times as large as one as `field` says, or `count`. Throws Error,
/// naming the field, where no real model has one so large.
void put_shared_expert(const Json& config, const char* field, int count, Experts& to);

/// Gives them to all layers but the first_k_dense_replace first ones.
void put_experts_behind(const Json& config, const Experts& experts, TransformerConfig& to);

/// Gives them to the layers that mlp_layer_types lists as 'sparse' or, without it, to all behind the first ones.
void put_experts_by_type(const Json& config, const Experts& experts, TransformerConfig& to);

/// Reads whether the weights of the experts that a row chooses are made to add up to 1; absent: they are not.
bool read_norm_topk_prob(const Json& config);
/// Gives them to the layers that decoder_sparse_step and mlp_only_layers leave.
void put_sparse_experts(const Json& config, const Experts& experts, TransformerConfig& to);

/// `prefix` is everything before the router's name and "experts.", such as "model.layers.3.mlp.". Experts are stored
/// one by one ("experts.0.gate_proj.weight"), all in one tensor with gate and up joined ("experts.gate_up_proj", of
/// quantized folders "experts.gate_up_proj.weight"), or all in one tensor each (GGUF). The gate of a shared expert is
/// "shared_expert_gate.weight".
ExpertsWeights load_experts(const WeightLoader& from, int hidden, const Experts& layer, const std::string& prefix,
                            const ExpertNames& names = {});

/// What a router chose: for each row `chosen` experts, ids ascending, and their weights.
struct Choices {
  std::vector<int> experts;
  std::vector<float> weights;
};
/// `scales`: of the experts, what their weights are multiplied by before they are rounded. `choice_bias`: of those that
/// have one.
Choices choose_experts(const float* logits, int rows, const Experts& layer, std::span<const float> scales = {},
                       std::span<const float> choice_bias = {});

/// Memory kept from call to call.
struct ExpertsScratch {
  std::vector<float> logits, gathered, out;
  std::vector<float> latent, mixed;  // [rows][latent]: what latent experts read, and give
  std::vector<int> rows;             // that chose an expert
  /// [rows * chosen] rows, by expert, that ranks complete: the gated ones, and what experts give.
  std::vector<float> gated_of_all, out_of_all;

  static std::size_t bytes_per_row(const Experts& layer, int hidden, bool over_ranks) noexcept;
};

/// Routes the rows of normed.
Choices route(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights, ExpertsScratch& scratch,
              std::span<const float> scales = {});

/// projected [rows][hidden] = the experts of normed, those of `choices` or else those that normed itself chooses
void mix_experts(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
                 const Choices& choices, ExpertsScratch& scratch);
void mix_experts(const TransformerPass& pass, const Experts& layer, const ExpertsWeights& weights,
                 ExpertsScratch& scratch);

/// projected [rows][hidden] = the MLP of layer `i`, or its experts, of normed
void feed_forward(const TransformerPass& pass, int i, const MlpWeights& mlp, const ExpertsWeights& experts,
                  ExpertsScratch& scratch);

}  // namespace draftproof
