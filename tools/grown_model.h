// SPDX-License-Identifier: MIT
// A trained small model in the shape of a large one: it says the same and costs what the large one costs, so speed is
// measured on fluent text with real acceptance. Of models like Qwen3 with tied embeddings, and of what drafts for them:
// their DFlash drafts, EAGLE-3 heads and MTP heads, and smaller models, in a smaller shape.
//
// With h for the old hidden size and H for the new one:
//   hidden state  The old coordinates come first; the others are 0, but the last, which is a constant c. Every norm of
//                 the hidden state has its weights times sqrt(h / H) and 0 beyond; with the epsilon
//                 (h epsilon - c^2) / H it divides by what it divided by.
//   heads         With r = new head_dim / old head_dim, coordinate i of each half of a head becomes r i of that half,
//                 which RoPE turns by the same angle. The norms of queries and keys have their weights times
//                 sqrt(1 / r), those of queries times sqrt(r) again for the scale of attention; where there are none,
//                 q_proj is multiplied by sqrt(r), and rounded unless that is a power of two. Each old KV head is
//                 copied for as many new ones as its queries need. What else there is of heads is random, and its
//                 columns of o_proj are 0.
//   MLP           Random rows of gate_proj and up_proj beyond the old ones, zero columns of down_proj.
//   layers        The old ones are spread evenly. The others are random, but o_proj and down_proj, which are 0.
//   vocabulary    The rows of new tokens are large and negative at the constant's coordinate and 0 elsewhere. The last
//                 norm, alone, lets the constant through: they never win.
//   DFlash        Its taps move with the target's layers, and fc passes the constant on. It gets five layers and five
//                 taps, as published drafts have; the columns of fc for the new taps are 0.
//   EAGLE-3       The same of its taps and fc. Its vocabulary grows to the 32000 tokens that published heads have, if
//                 the target has so many. The added ones are new tokens of the target.
//   MTP           Its layer moves behind those of the target. What it reads has no constant: embedding and feature went
//                 through norms. It takes for c what its norm makes of the constant of the embedding, c / 2 to 3 c. So
//                 this is not exact: its norms divide by what they divided by to a few millionths.
// Zeros are multiplied like other numbers, so time is that of the shape. Matrices are bfloat16, vectors f32.
#pragma once

#include <string>
#include <vector>

#include "ref/formats/checkpoint.h"
#include "ref/formats/safetensors_writer.h"
#include "tools/synthetic.h"

namespace draftproof {

struct GrownModel {
  std::string config;               // config.json
  std::vector<SafeTensor> tensors;  // they read from the old ones while they are written
};

/// `shape` is one of "qwen3". The same seed gives the same random weights. Throws Error, naming what is too large, for
/// a model that does not fit into the shape, and for one of another kind.
GrownModel grown(const Checkpoint& from, const SyntheticShape& shape, std::uint64_t seed);

}  // namespace draftproof
