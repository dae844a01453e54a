// SPDX-License-Identifier: MIT
// Medusa heads (Cai, Li, Geng, Peng, Lee, Chen, Dao 2024): MLPs that read the target's last hidden state, and each say
// one token more than its LM head does.
//
// With h the final norm of the last committed position that the target has read, whose LM head said the anchor, head k
// says the k-th draft token behind the anchor:
//
//   x = h;   x = x + SiLU(W x + b), for each of its blocks;   logits = scale * lm_head x
//
// So no draft token depends on another. A head has an LM head of its own, or all share one, or the target's; it may be
// for a part of the target's tokens, which are listed as they are.
//
// The authors' names are "HEAD.BLOCK.linear.weight", and behind the last block "HEAD.BLOCKS.weight", the LM head;
// vLLM's "blocks.HEAD.layers.BLOCK.weight", "lm_heads.HEAD.weight", "lm_head.weight" of all heads, and "token_map".
// Both also stand behind "medusa_heads." or "medusa_head.". Checkpoints have more heads than their config says (the
// published one of Vicuna has five, and says two), so tensors are what is counted. Sources: FasterDecoding/Medusa,
// medusa/model/medusa_model.py; vLLM, models/medusa.py; text-generation-inference, layers/medusa.py.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/packed_activations.h"
#include "ref/formats/checkpoint.h"
#include "ref/formats/json.h"
#include "ref/models/draft_tables.h"
#include "ref/models/memory.h"
#include "ref/models/model.h"

namespace draftproof {

/// The names of the tensors in a checkpoint.
struct MedusaNames {
  std::string prefix;
  bool of_vllm = false;

  /// What stands before "weight" and "bias".
  std::string block(int head, int block) const;
  std::string lm_head(int head, int blocks) const;
};

struct MedusaConfig {
  MedusaNames names;
  int heads = 0;
  int blocks = 0;  // of each head
  int hidden = 0;
  int vocabulary = 0;        // of the target; 1: left to it
  int draft_vocabulary = 0;  // tokens that are proposed
  bool bias = false;
  std::vector<std::string> lm_heads;  // of each head, or of all; empty: the target's
  float logit_scale = 1;
};

/// Reads what does not depend on the target, from the config and from which tensors there are. Throws Error when there
/// are no heads, or fewer than the config says.
MedusaConfig describe_medusa(const Checkpoint& files);

/// The same held against the target.
MedusaConfig read_medusa(const Checkpoint& files, const Model& target);

class MedusaHeads {
 public:
  /// `target` lends its final norm, and its LM head where the files have none, and must outlive the heads.
  MedusaHeads(const Checkpoint& files, const Model& target, const LoadOptions& options);
  /// `config` fits the target, unless the loader counts.
  MedusaHeads(const WeightLoader& from, MedusaConfig config, const Model& target);

  /// The memory that heads and the features of a text take. Reads no weights.
  static MemoryNeed need(const Checkpoint& files, const LoadOptions& options);

  int count() const noexcept { return config_.heads; }
  int width() const noexcept { return config_.hidden; }  // of a feature
  /// The target's last layer, whose output is the feature of a position.
  std::span<const int> taps() const noexcept { return {&last_layer_, 1}; }

  /// What the first so many heads say of one text.
  struct Text {
    std::span<const float> feature;  // [width], of the last position
    int heads;
    // Results, valid until the next call.
    std::span<const float> logits = {};  // [heads][vocabulary of the target]; -infinity: never proposed
    std::string error = {};              // why the logits cannot be used; empty when they can
  };

  /// Computes several texts in one pass. Every row has the bits that it has alone.
  void compute(std::span<Text> batch);

 private:
  struct Block {
    PackedMatrix linear;
    std::vector<float> bias;
  };
  void apply(const Block& block, int rows);

  const Kernels& kernels_;
  const Model& target_;
  std::string origin_;  // for errors
  MedusaConfig config_;
  int last_layer_;
  std::vector<std::vector<Block>> heads_;
  std::vector<DraftLmHead> lm_heads_;  // of each head, or one of all

  PackedActivations activations_;
  std::vector<float> features_;     // [texts][hidden], normed
  std::vector<float> rows_;         // x of the texts that want a head
  std::vector<float> gate_;         // [rows][2 * hidden]: W x + b, and ones
  std::vector<float> gated_;        // their SiLU
  std::vector<float> answers_;      // x behind the blocks, all heads of a text together
  std::vector<float> head_logits_;  // of one head
  std::vector<float> logits_;
};

}  // namespace draftproof
