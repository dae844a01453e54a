// SPDX-License-Identifier: MIT
// Translates a GGUF file into Hugging Face's terms: tensor names, the order of rows, config.json. There is one row of
// names per general.architecture.
#pragma once

#include <span>
#include <string>

#include "ref/formats/gguf.h"
#include "ref/formats/json.h"

namespace draftproof {

struct GgufName {
  const char* gguf;          // "attn_q" of "blk.3.attn_q.weight", or of "attn_q.weight"
  const char* hugging_face;  // "self_attn.q_proj" of "model.layers.3.self_attn.q_proj.weight"
  bool in_heads = false;     // the rows belong to heads that RoPE rotates
};

struct GgufNames {
  const char* architecture;
  std::span<const GgufName> whole;   // tensors of the whole model
  std::span<const GgufName> layer;   // of each layer
  const char* layers;                // what stands before a layer's number
  /// The converter put the two halves of each head's rows, which RoPE rotates together, into pairs of neighbors.
  bool pairs_rows;
  /// What config.json would hold. Errors name the key, those about its fields as well.
  Json (*config)(const Gguf& file);
};

/// Error when the file names no architecture, or one that is not in the table.
const GgufNames& gguf_names_of(const Gguf& file);

/// The translation of a tensor name; `name` is empty when the table does not have it.
struct GgufTranslation {
  std::string name;
  bool in_heads = false;
};
GgufTranslation translated(const GgufNames& names, const std::string& name);

/// The other way: how a file has, or would have, the tensor `hugging_face`; of several spellings the first. What the
/// table does not have stays.
std::string name_in_gguf(const GgufNames& names, const std::string& hugging_face);

}  // namespace draftproof
