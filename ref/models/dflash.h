// SPDX-License-Identifier: MIT
// The DFlash draft network (Chen, Liang, Liu 2026): a small Qwen3-style decoder without embedding or head of its own.
//
// For every committed position the target's residual stream is tapped after some layers; `fc` and `hidden_norm` turn
// the taps into one context row, and every draft layer turns context rows into keys and values. A context row at
// position p depends on the target's features at p and on nothing else, so the context cache only ever grows.
// One forward pass over [anchor, MASK, MASK, ...] drafts a whole block: row i predicts the token at its own position.
//
// Which keys a block row sees, per layer: (causal, window), see docs/adding.md and the authors' reference code.
// Source: z-lab/dflash, dflash/model.py.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "ref/base/token.h"
#include "ref/caches/cache.h"
#include "ref/formats/json.h"
#include "ref/formats/checkpoint.h"
#include "ref/models/model.h"
#include "ref/models/transformer.h"

namespace draftproof {

struct DFlashConfig {
  TransformerConfig transformer;
  int block_size = 0;          // rows of a block, the anchor included
  Token mask = 0;              // its target embedding stands for "unknown"
  std::vector<int> taps;       // target layers whose output is tapped, ascending
  std::vector<bool> causal;    // per draft layer: does a block row see later block rows?
  float embedding_scale = 1;
  float logit_multiplier = 1;
  float logit_cap = 0;         // 0: none
};

/// True when the config says it is a DFlash draft.
bool is_dflash(const Json& config);

/// Reads nested (`dflash_config`) and top-level fields and holds them against the target. Errors name file and field.
DFlashConfig read_dflash_config(const Json& config, const Model& target);

class DFlashNetwork {
 public:
  /// `target` lends its embedding table and head and must outlive the network.
  DFlashNetwork(const Checkpoint& files, const Model& target, const LoadOptions& options);

  const DFlashConfig& config() const noexcept { return config_; }
  std::unique_ptr<Cache> new_context(int capacity, int max_pending_rows) const;

  /// Target features of consecutive positions of one text, to become rows of its context.
  struct ContextRows {
    Cache* context;
    std::span<const float> features;  // [rows][taps * hidden]
    int rows;
  };

  /// Computes context rows c = hidden_norm(fc(features)) of several texts and stores their keys and values in every
  /// layer at [context.length(), ...).
  void append(std::span<const ContextRows> batch);

  /// A block [anchor, MASK x masks] at positions context.length(), ...
  struct Block {
    Cache* context;
    Token anchor;
    int masks;
    int position = -1;                   // result: of the anchor's row
    std::span<const float> logits = {};  // result: [masks][vocabulary] of rows 1..masks; valid until the next call
    std::string error = {};              // result: why the logits cannot be used; empty when they can
  };

  /// Computes the logits of several blocks in one pass. The contexts are as before afterwards.
  void compute(std::span<Block> batch);

  /// The context rows of the last append, [rows][hidden], and the final-normed rows of the last pass over blocks, for
  /// comparison with other programs.
  std::span<const float> context_rows() const noexcept { return context_rows_; }
  std::span<const float> block_rows() const noexcept { return block_rows_; }

 private:
  DFlashNetwork(const WeightLoader& from, const Model& target);
  void see(std::span<const Block> batch, int layer);
  void head(std::span<Block> batch);

  const Kernels& kernels_;
  KvFormat kv_;
  const Model& target_;
  std::string origin_;  // for errors
  DFlashConfig config_;
  PackedMatrix fc_;
  std::vector<float> hidden_norm_;
  std::vector<float> norm_;
  std::vector<PreNormLayer> layers_;
  TransformerScratch scratch_;
  std::vector<Placement> placements_;
  std::vector<float> features_;  // of all texts of the pass
  std::vector<Token> tokens_;    // of all blocks of the pass
  std::vector<float> context_rows_;
  std::vector<float> block_rows_;
  std::vector<float> logits_;
};

}  // namespace draftproof
