// SPDX-License-Identifier: MIT
// A model for proofs: its logits are a hash of the whole text before the row, so any mistake about positions, order or
// forgetting changes the next row at once, with no floating point to blame and millions of steps a second. Its cache
// holds the text, as a KV cache does, or one folded state, as the cache of a recurrent layer does.
#pragma once

#include <cstdint>
#include <memory>

#include "ref/models/model.h"

namespace draftproof {

struct HashShape {
  int vocabulary = 8;
  int context = 1 << 20;
  int levels = 4;                  // logits are small integers in [0, levels)
  int spread = 1;                  // ... times this
  std::uint64_t seed = 1;          // of the logits
  std::uint64_t perturbation = 0;  // 0: none; else the model disagrees with that of 0 on some rows,
  int disagreement = 4;            //    one in `disagreement`
  bool recurrent = false;          // the cache holds the hash of the text in place of the text; same logits
};

/// Returns the shape of a draft model: its logits disagree with those of `shape` on one row in two.
HashShape disagreeing(HashShape shape);

std::unique_ptr<Model> make_hash_model(const HashShape& shape);

}  // namespace draftproof
