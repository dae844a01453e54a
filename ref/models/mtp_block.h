// SPDX-License-Identifier: MIT
// The layer inside an MTP head: a layer of the target's architecture, apart from a model.
#pragma once

#include <memory>
#include <string>

#include "ref/models/transformer.h"

namespace draftproof {

class MtpBlock {
 public:
  virtual ~MtpBlock() = default;

  /// hidden_states = the layer of hidden_states. `layer` is its number in the pass's config. kv and visible are set.
  virtual void compute(const TransformerPass& pass, int layer) = 0;
};

/// How an architecture has them.
struct MtpBlocks {
  /// Returns the config of a model that has this layer only, as the checkpoint stores it. `model`: its description.
  TransformerConfig (*describe)(const Checkpoint& files, const TransformerConfig& model);
  /// `prefix` is everything before "self_attn.".
  std::unique_ptr<MtpBlock> (*load)(const WeightLoader& from, const TransformerConfig& config, int layer,
                                    const std::string& prefix);
};

/// Returns the description of a block that is like the last layer of the model.
TransformerConfig describe_like_last(const Checkpoint& files, const TransformerConfig& model);

/// Of architectures whose layers are those of Llama, the MLP or experts in it: the block is like the last layer.
extern const MtpBlocks pre_norm_blocks;

}  // namespace draftproof
