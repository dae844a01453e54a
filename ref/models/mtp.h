// SPDX-License-Identifier: MIT
// MTP heads (multi-token prediction, "NextN"): layers in a checkpoint that continue the text of its model, one token
// per head or, with a single head, one after the other from what the head returned itself.
//
// Row p of a text with tokens t, embedding E, and x the output of the model's last layer:
//
//   h = norm(x_{p-1})                                   the feature of a committed position: the model's final norm
//   z = project [ norm_e(E[t_p]) ; norm_h(h) ]          embedding first
//   y = norm_y(block(z))                                at position p
//   logits = lm_head y                                  of the token at p + 1; y is the feature of a draft token at p
//
// Of MiMo the hidden state comes first, and the feature of a committed position is x itself.
//
// Norms, RoPE and block are those of the model's architecture; of Qwen3.5 the block has full attention. Embedding and
// LM head are the model's unless the head has its own, norm_y is its final norm where the head has none.
//
// Several heads: every row goes through all of them, each with the keys and values of its own. Logits and feature of a
// row are those of head min(depth, heads - 1), where depth counts the rows before it in the transaction: the first
// draft token is the first head's.
//
// In the files: `mtp.` of Qwen3.5 and Qwen3-Next, where all heads share projection and norms; `model.mtp_block.N.` of
// ERNIE 4.5, with an MLP where the model has experts; `model.mtp_layers.N.` of MiMo; `mtp.layers.0.` and
// `mtp.layers.1.` of Nemotron-H, attention and experts of one head; or `model.layers.N.`, N and what follows it the
// numbers behind the model's last layer (DeepSeek, GLM; GGUF `blk.N.nextn.`). Qwen3-Next's config names no number of
// heads: there are as many as have a layer.
// Source: vLLM, models/qwen3_next_mtp.py and deepseek_mtp.py; llama.cpp, models/qwen35.cpp and step35.cpp; of ERNIE
// FastDeploy, models/ernie4_5_mtp.py; vLLM's ernie_mtp.py leaves out norm_y and turns pairs half a head apart. Of MiMo
// Xiaomi's modeling_mimo.py and vLLM, models/mimo_mtp.py; SGLang gives its head the normed feature. Of
// Nemotron-H vLLM, models/nemotron_h_mtp.py; llama.cpp's norm_y subtracts the mean. vLLM makes the embedding of a
// text's second token 0 for heads of DeepSeek and MiMo, which is not done here.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ref/models/head.h"
#include "ref/models/memory.h"
#include "ref/models/model.h"
#include "ref/models/mtp_block.h"

namespace draftproof {

/// The names of one head's tensors; the last ones are empty where it has none of its own.
struct MtpNames {
  std::string projection, embedding_norm, hidden_norm, block;
  std::string norm, embedding, lm_head;
  std::string experts = {};  // what theirs begin with, where the block's are attention's only
};

struct MtpConfig {
  TransformerConfig transformer;  // one layer for each head
  std::vector<MtpNames> heads;
  bool hidden_first = false;  // in what is projected
  bool reads_normed = true;   // the feature of a committed position is behind the model's final norm

  /// Whether a tensor belongs to a head.
  bool owns(const std::string& tensor) const;
};

/// Whether a checkpoint has heads: its config names them or is silent, and their tensors are there.
bool has_mtp_heads(const Checkpoint& files);

/// Describes the heads of a checkpoint. Throws Error, saying what to do, when it has none or they are not implemented.
MtpConfig read_mtp_config(const Checkpoint& files);

class MtpHead final : public Head {
 public:
  /// `files` are those of the target, or others that have heads for it. The target outlives the head.
  MtpHead(const Checkpoint& files, const Model& target, const LoadOptions& options);
  /// `config` fits the target, unless the loader counts.
  MtpHead(const WeightLoader& from, MtpConfig config, const Model& target);

  /// The memory that the heads and the features of a text take beside their model. Reads no weights.
  static MemoryNeed need(const Checkpoint& files, const LoadOptions& options);

  int context() const override { return config_.transformer.context; }
  int width() const override { return config_.transformer.hidden; }
  std::span<const int> taps() const override { return {&last_layer_, 1}; }
  std::vector<std::unique_ptr<LayerCache>> new_layers(int capacity, int max_pending_rows) const override;
  void fuse(std::span<const float> tapped, int rows, float* features) override;
  void forward(std::span<Rows> batch) override;

 private:
  struct Weights {
    PackedMatrix projection;  // [hidden][2 * hidden]
    std::vector<float> embedding_norm, hidden_norm;
    std::unique_ptr<MtpBlock> block;
    std::vector<float> norm;                // empty: the target's
    std::optional<PackedMatrix> embedding;  // of its own
    std::optional<PackedMatrix> lm_head;    // of its own
  };
  int vocabulary() const { return target_.vocabulary(); }
  void embed(const Weights& head, float* rows) const;
  void see(const TransformerPass& pass, int layer);
  void answer(const Weights& head, int first, int count);

  const Kernels& kernels_;
  KvFormat kv_;
  const Model& target_;
  std::string origin_;  // for errors
  MtpConfig config_;
  int last_layer_;
  std::vector<Weights> heads_;
  TransformerScratch scratch_;
  std::vector<Placement> placements_;
  std::vector<Token> tokens_;    // of all texts of the pass
  std::vector<float> features_;  // of all texts of the pass
  std::vector<float> combined_;  // [rows][2 * hidden]
  std::vector<float> next_features_;
  std::vector<float> logits_;
  bool numbers_ = true;  // no logit of the pass is NaN
};

}  // namespace draftproof
